package io.tidegate.s3;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.PositionedReadable;
import org.apache.hadoop.fs.Seekable;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.util.functional.FutureIO;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Files of checkpoints of Structured Streaming in an object store. Of several drivers that write one offset, commit or source log,
 * exactly one succeeds; the others get the exception by which Spark knows a second query. Spark's own manager looks whether the file is
 * there, and then copies one of another name to it.
 *
 * <p>A folder is nothing but the beginning of names: none is created, and that of a log counts as present without a look. A file of a
 * log has one content as long as it is there, so the query that has listed, read or created one asks for it once: Spark asks for the
 * newest ones again and again. One that the listing lacked counts as missing: whoever creates it learns whether another query has.
 */
public final class ConditionalCheckpointFileManager implements CheckpointFileManager {
  private static final Set<String> LOGS = Set.of("offsets", "commits");
  private static final int KEPT_BYTES = 1 << 20;
  private final S3AFileSystem fileSystem;
  private final Path folder;
  private final boolean isLog;
  /** Files of logs that this query has read or created. */
  private final Map<Path, byte[]> contents = new ConcurrentHashMap<>();
  /** Files as they were last listed or looked at, with which S3A opens them without another look. */
  private final Map<Path, FileStatus> statuses = new ConcurrentHashMap<>();
  /** Files of logs that this query has created. */
  private final Set<Path> created = ConcurrentHashMap.newKeySet();
  /** Whether this query has listed its log. */
  private volatile boolean isListed;

  /** Called by Spark, by the setting {@code spark.sql.streaming.checkpointFileManagerClass}. */
  public ConditionalCheckpointFileManager(Path path, Configuration settings) throws IOException {
    fileSystem = ObjectWrites.checked(path.getFileSystem(settings), path);
    folder = fileSystem.makeQualified(path);
    Path parent = folder.getParent();
    isLog = LOGS.contains(folder.getName()) || (parent != null && parent.getName().equals("sources"));
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    if (!overwriteIfPossible) {
      return new Creation(path, new ByteArrayOutputStream());
    }
    forget(path);
    return new Replacement(unchecked(() -> ObjectWrites.replace(fileSystem, path)));
  }

  private void forget(Path path) {
    Path key = fileSystem.makeQualified(path);
    contents.remove(key);
    statuses.remove(key);
    created.remove(key);
  }

  @Override
  public FSDataInputStream open(Path path) {
    if (!isOfLog(path)) {
      // What Spark has just looked for, it opens next. Later it may be another one.
      Path key = fileSystem.makeQualified(path);
      FileStatus status = statuses.remove(key);
      return unchecked(() -> status == null ? fileSystem.open(path) : opened(key, status));
    }
    return unchecked(() -> new FSDataInputStream(new ContentStream(content(path))));
  }

  private byte[] content(Path path) throws IOException {
    Path key = fileSystem.makeQualified(path);
    byte[] known = contents.get(key);
    if (known == null) {
      FileStatus status = statuses.get(key);
      try (var input = status == null ? fileSystem.open(path) : opened(key, status)) {
        known = input.readAllBytes();
      }
      if (known.length <= KEPT_BYTES) {
        contents.put(key, known);
      }
    }
    return known;
  }

  private FSDataInputStream opened(Path path, FileStatus status) throws IOException {
    return FutureIO.awaitFuture(fileSystem.openFile(path).withFileStatus(status).build());
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    return unchecked(
        () -> {
          List<FileStatus> accepted = new ArrayList<>();
          boolean isOwnLog = isLog && folder.equals(fileSystem.makeQualified(path));
          for (FileStatus status : all(path)) {
            if (isOwnLog && isOfLog(status.getPath())) {
              statuses.put(status.getPath(), status);
            }
            if (filter.accept(status.getPath())) {
              accepted.add(status);
            }
          }
          isListed |= isOwnLog;
          return accepted.toArray(new FileStatus[0]);
        });
  }

  /** What a folder has; nothing if there is none. */
  private FileStatus[] all(Path path) throws IOException {
    try {
      return fileSystem.listStatus(path);
    } catch (FileNotFoundException empty) {
      return new FileStatus[0];
    }
  }

  @Override
  public void mkdirs(Path path) {}

  @Override
  public boolean exists(Path path) {
    Path key = fileSystem.makeQualified(path);
    if (key.equals(folder) || contents.containsKey(key) || created.contains(key)) {
      return true;
    }
    if (isOfLog(path) && isListed) {
      return statuses.containsKey(key);
    }
    return unchecked(
        () -> {
          try {
            FileStatus status = fileSystem.getFileStatus(path);
            if (status.isFile()) {
              statuses.put(key, status);
            }
            // A name of a log is never that of a folder.
            return status.isFile() || !isOfLog(path);
          } catch (FileNotFoundException absent) {
            return false;
          }
        });
  }

  @Override
  public void delete(Path path) {
    forget(path);
    unchecked(() -> fileSystem.delete(path, true));
  }

  @Override
  public boolean isLocal() {
    return false;
  }

  @Override
  public Path createCheckpointDirectory() {
    return folder;
  }

  /** Whether a file is one of those that are created once: offsets, commits and the logs of sources, whose names are numbers. */
  private boolean isOfLog(Path path) {
    return isLog && folder.equals(fileSystem.makeQualified(path).getParent()) && path.getName().chars().allMatch(Character::isDigit);
  }

  /** A content that was read before. */
  private static final class ContentStream extends ByteArrayInputStream implements Seekable, PositionedReadable {
    ContentStream(byte[] content) {
      super(content);
    }

    @Override
    public synchronized void seek(long position) throws IOException {
      if (position < 0 || position > count) {
        throw new EOFException("position " + position + " of " + count);
      }
      pos = (int) position;
    }

    @Override
    public synchronized long getPos() {
      return pos;
    }

    @Override
    public boolean seekToNewSource(long position) {
      return false;
    }

    @Override
    public int read(long position, byte[] target, int offset, int length) {
      if (position >= count) {
        return -1;
      }
      int available = Math.min(length, count - (int) position);
      System.arraycopy(buf, (int) position, target, offset, available);
      return available;
    }

    @Override
    public void readFully(long position, byte[] target, int offset, int length) throws IOException {
      if (position + length > count) {
        throw new EOFException("position " + (position + length) + " of " + count);
      }
      System.arraycopy(buf, (int) position, target, offset, length);
    }

    @Override
    public void readFully(long position, byte[] target) throws IOException {
      readFully(position, target, 0, target.length);
    }
  }

  /** Keeps the content until the stream is closed, and creates the object then. */
  private final class Creation extends CancellableFSDataOutputStream {
    private final Path path;
    private final ByteArrayOutputStream content;
    private boolean ended;

    Creation(Path path, ByteArrayOutputStream content) {
      super(content);
      this.path = path;
      this.content = content;
    }

    @Override
    public synchronized void close() throws IOException {
      if (!ended) {
        ended = true;
        byte[] bytes = content.toByteArray();
        ObjectWrites.create(fileSystem, path, bytes);
        if (isOfLog(path)) {
          Path key = fileSystem.makeQualified(path);
          created.add(key);
          if (bytes.length <= KEPT_BYTES) {
            contents.put(key, bytes);
          }
        }
      }
    }

    @Override
    public synchronized void cancel() {
      ended = true;
    }
  }

  /** Passes the content on to S3A, which makes it the object when the stream is closed. */
  private static final class Replacement extends CancellableFSDataOutputStream {
    private final FSDataOutputStream output;

    Replacement(FSDataOutputStream output) {
      super(output);
      this.output = output;
    }

    @Override
    public void cancel() {
      output.abort();
    }
  }

  private interface Call<T> {
    T run() throws IOException;
  }

  /** The result of a call. Spark's interface, which is Scala's, declares no exceptions, and expects those of Hadoop as they are. */
  private static <T> T unchecked(Call<T> call) {
    try {
      return call.run();
    } catch (IOException failure) {
      throw ConditionalCheckpointFileManager.<RuntimeException>asUnchecked(failure);
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E asUnchecked(Throwable failure) throws E {
    throw (E) failure;
  }
}
