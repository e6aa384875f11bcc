package io.tidegate.s3;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import software.amazon.awssdk.core.interceptor.Context;
import software.amazon.awssdk.core.interceptor.ExecutionAttributes;
import software.amazon.awssdk.core.interceptor.ExecutionInterceptor;
import software.amazon.awssdk.http.SdkHttpRequest;

/**
 * Counts the requests that S3A sends from this JVM, those that it sends again included, by method and kind of object: {@code GET log}.
 *
 * <p>S3A makes one by the setting {@code fs.s3a.audit.execution.interceptors} for each file system; all count together. S3A's own statistics
 * know neither the kind of object nor what it sends again. The kinds are those of {@code tidegate/store/counted.py}.
 */
public final class SentRequests implements ExecutionInterceptor {
  private static final Map<String, LongAdder> SENT = new ConcurrentHashMap<>();

  /** What was sent until now, by method and kind of object. */
  public static Map<String, Long> count() {
    Map<String, Long> counts = new TreeMap<>();
    SENT.forEach((kind, number) -> counts.put(kind, number.sum()));
    return counts;
  }

  @Override
  public void beforeTransmission(Context.BeforeTransmission context, ExecutionAttributes attributes) {
    SdkHttpRequest request = context.httpRequest();
    boolean lists = request.firstMatchingRawQueryParameter("list-type").isPresent();
    String key = lists ? request.firstMatchingRawQueryParameter("prefix").orElse("") : request.encodedPath();
    boolean copies = request.firstMatchingHeader("x-amz-copy-source").isPresent();
    String method = lists ? "LIST" : copies ? "COPY" : request.method().name();
    SENT.computeIfAbsent(method + " " + kind("/" + key), name -> new LongAdder()).increment();
  }

  private static String kind(String key) {
    if (key.contains("/_delta_log")) {
      return "log";
    }
    if (!key.contains("/checkpoints/")) {
      return "other";
    }
    return key.contains("/state/") ? "state" : "checkpoint";
  }
}
