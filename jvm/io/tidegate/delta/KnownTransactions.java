package io.tidegate.delta;

import java.lang.reflect.Field;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.DummySnapshot;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.VersionChecksum;
import org.apache.spark.sql.delta.actions.SetTransaction;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.collection.mutable.Builder;

/**
 * Gives the snapshot of a table the transactions that Delta has read with its checksum file.
 *
 * <p>Before each idempotent write Delta looks up the table's last transaction of the application, in the lazy value {@code transactions} of
 * the snapshot. It computes this from the state of the whole table: a job of three stages over all files of the table, also for an append
 * that needs none of them. The checksum file of the version has the same transactions, unless there are more than a hundred (Delta
 * protocol, "Version Checksum File").
 *
 * <p>The value is set as the compiler of Scala does it: the field, and a bit of {@code bitmap$0} under the monitor of the object. A release
 * of Delta in which this is not so computes its state as before.
 */
public final class KnownTransactions {
  private KnownTransactions() {}

  /**
   * Sets the transactions of the newest snapshot that this JVM knows of a table, if its checksum file has them. A snapshot that Delta
   * reads later has none.
   *
   * @param table the address of the table, which need not exist
   */
  public static void reuse(SparkSession session, String table) {
    Snapshot snapshot = DeltaLog.forTable(session, table).unsafeVolatileSnapshot();
    Option<VersionChecksum> checksum = snapshot.checksumOpt();
    if (checksum.isEmpty() || checksum.get().setTransactions().isEmpty()) {
      return;
    }
    LazyField.of(snapshot).set(snapshot, byApplication(checksum.get().setTransactions().get()));
  }

  private static Map<String, Object> byApplication(Seq<SetTransaction> listed) {
    Builder<Tuple2<String, Object>, Map<String, Object>> versions = Map$.MODULE$.newBuilder();
    for (int number = 0; number < listed.size(); number++) {
      versions.addOne(new Tuple2<>(listed.apply(number).appId(), listed.apply(number).version()));
    }
    return versions.result();
  }

  /** The lazy value {@code transactions} of a snapshot. */
  private static final class LazyField {
    private static LazyField known;

    private final Field value;
    private final Field bitmap;
    private final int bit;

    private LazyField(Field value, Field bitmap, int bit) {
      this.value = value;
      this.bitmap = bitmap;
      this.bit = bit;
    }

    static synchronized LazyField of(Snapshot any) {
      if (known == null) {
        known = find(any);
      }
      return known;
    }

    /** With the bit that computing the value of an empty table sets; with 0 if that is not exactly one. */
    private static LazyField find(Snapshot any) {
      try {
        Field value = Snapshot.class.getDeclaredField("transactions");
        Field bitmap = Snapshot.class.getDeclaredField("bitmap$0");
        value.setAccessible(true);
        bitmap.setAccessible(true);
        Snapshot empty = new DummySnapshot(any.deltaLog().logPath(), any.deltaLog());
        empty.setTransactions();
        int before = bitmap.getInt(empty);
        empty.transactions();
        int set = bitmap.getInt(empty) & ~before;
        return new LazyField(value, bitmap, Integer.bitCount(set) == 1 ? set : 0);
      } catch (ReflectiveOperationException | RuntimeException | LinkageError otherRelease) {
        return new LazyField(null, null, 0);
      }
    }

    void set(Snapshot snapshot, Map<String, Object> transactions) {
      if (bit == 0) {
        return;
      }
      synchronized (snapshot) {
        try {
          int computed = bitmap.getInt(snapshot);
          if ((computed & bit) == 0) {
            value.set(snapshot, transactions);
            bitmap.setInt(snapshot, computed | bit);
          }
        } catch (IllegalAccessException refused) {
          throw new IllegalStateException("a field that was made accessible is refused", refused);
        }
      }
    }
  }
}
