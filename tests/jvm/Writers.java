import io.delta.storage.LogStore;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Writers that race for the same names in one folder: {@code Writers commits|offsets <class> <folder> <name> <threads> <count> <settings>}.
 * Prints {@code ready}, waits for a byte, and prints one line for each write that ended: {@code <file> <writer> acknowledged|failed}, where a file is {@code <table>/<version>} or a number.
 */
public final class Writers {
  private static final Queue<String> ENDED = new ConcurrentLinkedQueue<>();

  /** The commits of all writers to one log, before they go on with the next one: to list a long log takes ever longer. */
  private static final int PER_LOG = 200;

  public static void main(String[] arguments) throws Exception {
    String kind = arguments[0];
    Class<?> implementation = Class.forName(arguments[1]);
    Path folder = new Path(arguments[2]);
    String name = arguments[3];
    int threads = Integer.parseInt(arguments[4]);
    int count = Integer.parseInt(arguments[5]);
    Configuration settings = new Configuration();
    for (String line : Files.readAllLines(java.nio.file.Path.of(arguments[6]))) {
      settings.set(line.substring(0, line.indexOf('=')), line.substring(line.indexOf('=') + 1));
    }
    folder.getFileSystem(settings);
    CyclicBarrier together = new CyclicBarrier(threads);
    List<Callable<Void>> writers = new ArrayList<>();
    for (int number = 0; number < threads; number++) {
      String writer = name + "-" + number;
      writers.add(
          kind.equals("commits")
              ? () -> commit((LogStore) implementation.getConstructor(Configuration.class).newInstance(settings), folder, writer, count, settings)
              : () -> create(manager(implementation, folder, settings), folder, writer, count, together));
    }
    System.out.println("ready");
    System.in.read();
    var pool = Executors.newFixedThreadPool(threads);
    List<Future<Void>> ends = pool.invokeAll(writers);
    pool.shutdown();
    for (Future<Void> end : ends) {
      end.get();
    }
    ENDED.forEach(System.out::println);
  }

  /**
   * Adds commits to the logs of tables, {@code <table>/_delta_log}, one log after the other, each after the newest version, which a
   * transaction of Delta lists first as well. A writer that continued after its own last version would stay ahead of the others, and they
   * would never race.
   */
  private static Void commit(LogStore store, Path folder, String writer, int count, Configuration settings) throws IOException {
    int table = 0;
    int version = 0;
    for (int number = 0; number < count; ) {
      Path log = new Path(folder, table + "/_delta_log");
      version = Math.max(version, newest(store, file(log, version), settings) + 1);
      if (version == PER_LOG) {
        table++;
        version = 0;
        continue;
      }
      String id = writer + "-" + number;
      try {
        store.write(file(log, version), List.of(id).iterator(), false, settings);
        ENDED.add(table + "/" + version + " " + id + " acknowledged");
        number++;
      } catch (java.nio.file.FileAlreadyExistsException taken) {
        // The next version may be free.
      } catch (IOException failure) {
        ENDED.add(table + "/" + version + " " + id + " failed");
        number++;
      }
    }
    return null;
  }

  private static Path file(Path folder, int version) {
    return new Path(folder, String.format("%020d.json", version));
  }

  private static int newest(LogStore store, Path from, Configuration settings) throws IOException {
    int newest = -1;
    try {
      for (var files = store.listFrom(from, settings); files.hasNext(); ) {
        String name = files.next().getPath().getName();
        if (name.matches("\\d+\\.json")) {
          newest = Math.max(newest, Integer.parseInt(name.substring(0, name.indexOf('.'))));
        }
      }
    } catch (java.io.FileNotFoundException empty) {
      // No version has been written.
    }
    return newest;
  }

  private static CheckpointFileManager manager(Class<?> implementation, Path folder, Configuration settings) throws Exception {
    return (CheckpointFileManager) implementation.getConstructor(Path.class, Configuration.class).newInstance(folder, settings);
  }

  /** Creates the files of a log, each at the same time as all other writers. */
  private static Void create(CheckpointFileManager manager, Path folder, String writer, int count, CyclicBarrier together)
      throws Exception {
    manager.mkdirs(folder);
    for (int number = 0; number < count; number++) {
      together.await(60, TimeUnit.SECONDS);
      var output = manager.createAtomic(new Path(folder, String.valueOf(number)), false);
      try {
        output.write(writer.getBytes(StandardCharsets.UTF_8));
        output.close();
        ENDED.add(number + " " + writer + " acknowledged");
      } catch (org.apache.hadoop.fs.FileAlreadyExistsException taken) {
        output.cancel();
      } catch (IOException failure) {
        output.cancel();
        ENDED.add(number + " " + writer + " failed");
      }
    }
    return null;
  }
}
