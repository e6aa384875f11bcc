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
 * Prints one line for each write that ended: {@code <number> <writer> acknowledged|failed}.
 */
public final class Writers {
  private static final Queue<String> ENDED = new ConcurrentLinkedQueue<>();

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
    var pool = Executors.newFixedThreadPool(threads);
    List<Future<Void>> ends = pool.invokeAll(writers);
    pool.shutdown();
    for (Future<Void> end : ends) {
      end.get();
    }
    ENDED.forEach(System.out::println);
  }

  /** Adds commits to a log, each at the first version that is free. */
  private static Void commit(LogStore store, Path folder, String writer, int count, Configuration settings) {
    int version = 0;
    for (int number = 0; number < count; version++) {
      String id = writer + "-" + number;
      Path path = new Path(folder, String.format("%020d.json", version));
      try {
        store.write(path, List.of(id).iterator(), false, settings);
        ENDED.add(version + " " + id + " acknowledged");
        number++;
      } catch (java.nio.file.FileAlreadyExistsException taken) {
        // The next version may be free.
      } catch (IOException failure) {
        ENDED.add(version + " " + id + " failed");
        number++;
      }
    }
    return null;
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
