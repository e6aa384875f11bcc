import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** Writes and reads an object by S3A in each bucket: {@code BucketWriter <settings> <uri>…}. Prints what became of each. */
public final class BucketWriter {
  public static void main(String[] arguments) throws Exception {
    Configuration settings = new Configuration();
    for (String line : Files.readAllLines(java.nio.file.Path.of(arguments[0]))) {
      settings.set(line.substring(0, line.indexOf('=')), line.substring(line.indexOf('=') + 1));
    }
    for (int number = 1; number < arguments.length; number++) {
      Path path = new Path(arguments[number]);
      String outcome = "written";
      try {
        var files = path.getFileSystem(settings);
        try (var output = files.create(path, true)) {
          output.write("x".getBytes(StandardCharsets.UTF_8));
        }
        files.open(path).read();
      } catch (Exception failure) {
        outcome = "";
        for (Throwable each = failure; each != null; each = each.getCause()) {
          outcome += each.toString().replace('\n', ' ') + " | ";
        }
      }
      System.out.println(outcome);
    }
  }
}
