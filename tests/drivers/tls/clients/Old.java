// Connects with the Java driver 2.14: java Old CASES. It knows no option for TLS, only a factory of sockets.
import com.mongodb.*;
import java.util.*;

public class Old {
    public static void main(String[] args) throws Exception {
        Stores.run(args[0], (text, context) -> {
            MongoClientOptions.Builder options = MongoClientOptions.builder()
                .socketFactory(context.getSocketFactory()).connectTimeout(4000).socketTimeout(30000);
            MongoClientURI uri = new MongoClientURI(text, options);
            MongoClient client = new MongoClient(uri);
            try {
                CommandResult status = client.getDB("admin").command(new BasicDBObject("connectionStatus", 1));
                status.throwOnError();
                List<?> users = (List<?>) ((DBObject) status.get("authInfo")).get("authenticatedUsers");
                if (users.isEmpty()) {
                    return "";
                }
                DBCollection things = client.getDB("shop").getCollection("old");
                char[] blob = new char[100000];
                Arrays.fill(blob, 'x');
                things.insert(new BasicDBObject("text", new String(blob)));
                if (((String) things.findOne().get("text")).length() != 100000) {
                    throw new IllegalStateException("another document");
                }
                return (String) ((DBObject) users.get(0)).get("user");
            } finally {
                client.close();
            }
        });
        System.exit(0);
    }
}
