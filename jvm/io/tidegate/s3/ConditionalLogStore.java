package io.tidegate.s3;

import io.delta.storage.CloseableIterator;
import io.delta.storage.LineCloseableIterator;
import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.functional.FutureIO;

/**
 * A log store of Delta for any number of writers, in any number of processes: it creates each commit under a condition.
 *
 * <p>What a listing has told of a file is not asked again when the file is read. S3A reads it under the condition that it still has the
 * tag of the listing.
 */
public final class ConditionalLogStore extends S3SingleDriverLogStore {
  private static final int KEPT_STATUSES = 1000;
  private static final int MAX_READ_AT_ONCE = 1 << 20;

  /** The files that were listed last. */
  private final Map<Path, FileStatus> listed =
      Collections.synchronizedMap(
          new LinkedHashMap<>() {
            private static final long serialVersionUID = 1L;

            @Override
            protected boolean removeEldestEntry(Map.Entry<Path, FileStatus> eldest) {
              return size() > KEPT_STATUSES;
            }
          });

  /** Called by Delta, by the setting {@code spark.delta.logStore.s3.impl} or {@code spark.delta.logStore.s3a.impl}. */
  public ConditionalLogStore(Configuration settings) {
    super(settings);
  }

  @Override
  public Iterator<FileStatus> listFrom(Path path, Configuration settings) throws IOException {
    Iterator<FileStatus> statuses = super.listFrom(path, settings);
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return statuses.hasNext();
      }

      @Override
      public FileStatus next() {
        FileStatus status = statuses.next();
        listed.put(status.getPath(), status);
        return status;
      }
    };
  }

  @Override
  public CloseableIterator<String> read(Path path, Configuration settings) throws IOException {
    FileSystem fileSystem = path.getFileSystem(settings);
    Path key = fileSystem.makeQualified(path);
    FileStatus status = listed.get(key);
    if (status == null || !status.isFile() || status.getLen() > MAX_READ_AT_ONCE) {
      return super.read(path, settings);
    }
    try (var input = FutureIO.awaitFuture(fileSystem.openFile(path).withFileStatus(status).build())) {
      var content = new ByteArrayInputStream(input.readAllBytes());
      return new LineCloseableIterator(new InputStreamReader(content, StandardCharsets.UTF_8));
    } catch (IOException changed) {
      // It may be another one since, as behind a recovery; any other failure occurs again.
      listed.remove(key);
      return super.read(path, settings);
    }
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration settings) throws IOException {
    FileSystem fileSystem = path.getFileSystem(settings);
    ByteArrayOutputStream lines = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      lines.write(actions.next().getBytes(StandardCharsets.UTF_8));
      lines.write('\n');
    }
    if (overwrite) {
      try (var output = ObjectWrites.replace(fileSystem, path)) {
        lines.writeTo(output);
      }
      return;
    }
    try {
      ObjectWrites.create(fileSystem, path, lines.toByteArray());
    } catch (FileAlreadyExistsException present) {
      // Delta knows a conflict by this class.
      var refusal = new java.nio.file.FileAlreadyExistsException(path.toString());
      refusal.initCause(present);
      throw refusal;
    }
  }
}
