// Connects with the Java driver 3.12 or later: java Tls CASES.
import com.mongodb.*;
import com.mongodb.client.*;
import java.util.*;
import org.bson.Document;

public class Tls {
    public static void main(String[] args) throws Exception {
        Stores.run(args[0], (uri, context) -> {
            MongoClientSettings settings = MongoClientSettings.builder()
                .applyConnectionString(new ConnectionString(uri))
                .applyToSslSettings(ssl -> ssl.context(context))
                .build();
            // The package com.mongodb of 3.12 has another class of this name.
            try (com.mongodb.client.MongoClient client = MongoClients.create(settings)) {
                Document status = client.getDatabase("admin").runCommand(new Document("connectionStatus", 1));
                List<Document> users = status.get("authInfo", Document.class).getList("authenticatedUsers", Document.class);
                if (users.isEmpty()) {
                    return "";
                }
                MongoCollection<Document> things = client.getDatabase("shop").getCollection("java");
                things.insertOne(new Document("text", "x".repeat(100000)));
                if (things.find().first().getString("text").length() != 100000) {
                    throw new IllegalStateException("another document");
                }
                return users.get(0).getString("user");
            }
        });
        System.exit(0);
    }
}
