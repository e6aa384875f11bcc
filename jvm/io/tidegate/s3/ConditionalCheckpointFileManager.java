package io.tidegate.s3;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Files of checkpoints of Structured Streaming in an object store. Of several drivers that write one offset, commit or source log,
 * exactly one succeeds; the others get the exception by which Spark knows a second query. Spark's own manager looks whether the file is
 * there, and then copies one of another name to it.
 *
 * <p>A folder is nothing but the beginning of names: none is created, and that of a log counts as present without a look.
 */
public final class ConditionalCheckpointFileManager implements CheckpointFileManager {
  private final S3AFileSystem fileSystem;
  private final Path folder;

  /** Called by Spark, by the setting {@code spark.sql.streaming.checkpointFileManagerClass}. */
  public ConditionalCheckpointFileManager(Path path, Configuration settings) throws IOException {
    fileSystem = ObjectWrites.checked(path.getFileSystem(settings), path);
    folder = fileSystem.makeQualified(path);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    return overwriteIfPossible
        ? new Replacement(unchecked(() -> ObjectWrites.replace(fileSystem, path)))
        : new Creation(path, new ByteArrayOutputStream());
  }

  @Override
  public FSDataInputStream open(Path path) {
    return unchecked(() -> fileSystem.open(path));
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    return unchecked(
        () -> {
          try {
            return fileSystem.listStatus(path, filter);
          } catch (FileNotFoundException empty) {
            return new FileStatus[0];
          }
        });
  }

  @Override
  public void mkdirs(Path path) {}

  @Override
  public boolean exists(Path path) {
    return fileSystem.makeQualified(path).equals(folder) || unchecked(() -> fileSystem.exists(path));
  }

  @Override
  public void delete(Path path) {
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
        ObjectWrites.create(fileSystem, path, content.toByteArray());
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
