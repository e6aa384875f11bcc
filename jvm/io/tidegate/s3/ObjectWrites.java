package io.tidegate.s3;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.Arrays;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import software.amazon.awssdk.awscore.exception.AwsServiceException;

/** The two ways in which objects are written: only if there is none yet, or in place of what is there. */
final class ObjectWrites {
  private static final String CONDITION = "fs.option.create.conditional.overwrite";
  private static final String METADATA = "creation-id";
  private static final int ATTEMPTS = 8;
  private static final int CONFLICT = 409;

  private ObjectWrites() {}

  /**
   * Creates an object of a name that none has yet, with the header {@code If-None-Match: *}: of all writers of one name, exactly one
   * succeeds.
   *
   * <p>Every object carries a random id of its creation. A request whose answer is lost may have had its effect, and S3A sends it again,
   * which is refused then: the id of the object that is there tells whether it is one's own. Contents would not tell: two drivers may
   * write equal ones.
   *
   * @throws FileAlreadyExistsException there is one, which another writer has created.
   * @throws IOException the object could not be created; if the server did not answer, it may appear later.
   */
  static void create(FileSystem fileSystem, Path path, byte[] content) throws IOException {
    S3AFileSystem s3a = checked(fileSystem, path);
    String id = UUID.randomUUID().toString();
    for (int attempt = 1; ; attempt++) {
      try {
        put(s3a, path, content, id);
        return;
      } catch (IOException failure) {
        String present = creationId(s3a, path, failure);
        if (id.equals(present)) {
          return;
        }
        if (present != null) {
          FileAlreadyExistsException refusal = new FileAlreadyExistsException(path + " already exists");
          refusal.initCause(failure);
          throw refusal;
        }
        // The server was in the middle of another request for this name, which failed, or was a deletion.
        if (!isConflict(failure) || attempt == ATTEMPTS) {
          throw failure;
        }
        pause(attempt, failure);
      }
    }
  }

  /** A stream to an object in place of what is there, which appears as a whole when the stream is closed. No folder is probed. */
  static FSDataOutputStream replace(FileSystem fileSystem, Path path) throws IOException {
    FSDataOutputStreamBuilder<?, ?> creation = fileSystem.createFile(path);
    creation.overwrite(true);
    creation.opt("fs.s3a.create.performance", true);
    return (FSDataOutputStream) creation.build();
  }

  /**
   * The file system, if creations through it are conditional.
   *
   * @throws IOException it is not S3A, or S3A is set to skip checks for all who create files.
   */
  static S3AFileSystem checked(FileSystem fileSystem, Path path) throws IOException {
    if (!(fileSystem instanceof S3AFileSystem)) {
      throw new IOException(path + " is not on S3A, but on " + fileSystem.getClass().getName() + ", which has no conditional creation");
    }
    Configuration settings = fileSystem.getConf();
    String[] flags = settings.getTrimmedStrings("fs.s3a.performance.flags");
    if (Arrays.stream(flags).anyMatch(flag -> flag.equals("*") || flag.equalsIgnoreCase("create"))
        || settings.getBoolean("fs.s3a.create.performance", false)) {
      throw new IOException(
          "fs.s3a.performance.flags has 'create' or '*', or fs.s3a.create.performance is true: every file would be created without a "
              + "look at what is there. Remove the flag; 'delete' and 'mkdir' may stay");
    }
    return (S3AFileSystem) fileSystem;
  }

  private static void put(S3AFileSystem fileSystem, Path path, byte[] content, String id) throws IOException {
    FSDataOutputStreamBuilder<?, ?> creation = fileSystem.createFile(path);
    creation.must(CONDITION, true);
    creation.must("fs.s3a.create.header." + METADATA, id);
    try (var output = (FSDataOutputStream) creation.build()) {
      output.write(content);
    }
  }

  /** The id of the object that is there: null if none is, empty if its creator gave it none. */
  private static String creationId(S3AFileSystem fileSystem, Path path, IOException failure) throws IOException {
    try {
      return fileSystem.getS3AInternals().getObjectMetadata(path).metadata().getOrDefault(METADATA, "");
    } catch (FileNotFoundException absent) {
      return null;
    } catch (IOException unreachable) {
      failure.addSuppressed(unreachable);
      throw failure;
    }
  }

  private static boolean isConflict(Throwable failure) {
    for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
      if (cause instanceof AwsServiceException && ((AwsServiceException) cause).statusCode() == CONFLICT) {
        return true;
      }
    }
    return false;
  }

  private static void pause(int attempt, IOException failure) throws IOException {
    try {
      Thread.sleep(ThreadLocalRandom.current().nextLong(20L << attempt) + 1);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      InterruptedIOException stopped = new InterruptedIOException("interrupted while waiting for another request of this name");
      stopped.initCause(failure);
      throw stopped;
    }
  }
}
