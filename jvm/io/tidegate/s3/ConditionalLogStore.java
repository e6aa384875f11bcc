package io.tidegate.s3;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** A log store of Delta for any number of writers, in any number of processes: it creates each commit under a condition. */
public final class ConditionalLogStore extends S3SingleDriverLogStore {
  /** Called by Delta, by the setting {@code spark.delta.logStore.s3.impl} or {@code spark.delta.logStore.s3a.impl}. */
  public ConditionalLogStore(Configuration settings) {
    super(settings);
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
