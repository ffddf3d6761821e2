// Contexts of TLS from key stores, for the programs beside this one.
import java.io.*;
import java.nio.file.*;
import java.security.*;
import java.util.*;
import javax.net.ssl.*;

class Stores {
    static final char[] PASSWORD = "changeit".toCharArray();

    /** The authorities of one store, and the certificate with its key of another, unless that is empty. */
    static SSLContext context(String trust, String own) throws Exception {
        TrustManagerFactory trusted = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trusted.init(store(trust));
        KeyManager[] keys = null;
        if (!own.isEmpty()) {
            KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
            factory.init(store(own), PASSWORD);
            keys = factory.getKeyManagers();
        }
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys, trusted.getTrustManagers(), null);
        return context;
    }

    static KeyStore store(String path) throws Exception {
        KeyStore store = KeyStore.getInstance(path.endsWith(".jks") ? "JKS" : "PKCS12");
        try (InputStream in = new FileInputStream(path)) {
            store.load(in, PASSWORD);
        }
        return store;
    }

    interface Client {
        /** Connects, and returns who is logged in. A user also writes and reads a document. */
        String user(String uri, SSLContext context) throws Exception;
    }

    /** Runs a file of lines `name TAB uri TAB trust TAB own`. */
    static void run(String path, Client client) throws Exception {
        for (String line : Files.readAllLines(Paths.get(path))) {
            String[] fields = line.split("\t", -1);
            try {
                System.out.println(fields[0] + "\tok\t" + client.user(fields[1], context(fields[2], fields[3])));
            } catch (Exception e) {
                StringBuilder all = new StringBuilder();
                for (Throwable one = e; one != null; one = one.getCause()) {
                    all.append(one.toString()).append(" / ");
                }
                System.out.println(fields[0] + "\terror\t" + all.toString().replaceAll("\\s+", " "));
            }
        }
    }
}
