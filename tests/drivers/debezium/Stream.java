import com.fasterxml.jackson.databind.ObjectMapper;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * Debezium's connector on the collection `dbz.c`, embedded: appends a line to DIR/events for each record (operation, key,
 * document) and ends behind the document `end`. Offsets are kept in DIR, so that a second run continues.
 *
 * <p>Stream URI DIR
 */
public class Stream {
  public static void main(String[] args) throws Exception {
    Properties options = new Properties();
    options.setProperty("name", "nagi");
    options.setProperty("connector.class", "io.debezium.connector.mongodb.MongoDbConnector");
    options.setProperty("offset.storage", "org.apache.kafka.connect.storage.FileOffsetBackingStore");
    options.setProperty("offset.storage.file.filename", args[1] + "/offsets");
    options.setProperty("offset.flush.interval.ms", "0");
    options.setProperty("mongodb.connection.string", args[0]);
    options.setProperty("topic.prefix", "nagi");
    options.setProperty("collection.include.list", "dbz.c");
    options.setProperty("capture.mode", "change_streams_update_full");
    CountDownLatch end = new CountDownLatch(1);
    PrintStream out = new PrintStream(new FileOutputStream(args[1] + "/events", true), true);
    ObjectMapper json = new ObjectMapper();
    DebeziumEngine<ChangeEvent<String, String>> engine =
        DebeziumEngine.create(Json.class)
            .using(options)
            .using((ok, message, error) -> {
              if (!ok) {
                System.err.println("the engine ended: " + message + " " + error);
                end.countDown();
              }
            })
            .notifying((records, committer) -> {
              for (ChangeEvent<String, String> record : records) {
                print(json, record, out, end);
                committer.markProcessed(record);
              }
              committer.markBatchFinished();
            })
            .build();
    ExecutorService executor = Executors.newSingleThreadExecutor();
    executor.execute(engine);
    boolean done = end.await(120, TimeUnit.SECONDS);
    engine.close();
    executor.shutdown();
    executor.awaitTermination(20, TimeUnit.SECONDS);
    System.exit(done ? 0 : 1);
  }

  static void print(ObjectMapper json, ChangeEvent<String, String> record, PrintStream out, CountDownLatch end) {
    if (record.value() == null) {
      return; // the tombstone behind a deletion
    }
    try {
      var value = json.readTree(record.value());
      value = value.has("payload") ? value.get("payload") : value;
      var key = json.readTree(record.key());
      String id = (key.has("payload") ? key.get("payload") : key).get("id").asText();
      String after = value.hasNonNull("after") ? value.get("after").asText() : "-";
      out.println(value.get("op").asText() + "\t" + id + "\t" + after);
      if (id.contains("end")) {
        end.countDown();
      }
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }
}
