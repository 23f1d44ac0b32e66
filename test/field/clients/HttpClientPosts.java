import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.concurrent.Executors;

/** As clients/fetch.mjs, with the HttpClient of the JDK as it comes. */
public class HttpClientPosts {
  public static void main(String[] args) throws Exception {
    byte[] body = new byte[Integer.parseInt(args[2])];
    HttpRequest request = HttpRequest.newBuilder(URI.create(args[0]))
        .header("Authorization", "Bearer " + args[1])
        .header("Content-Type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofByteArray(body))
        .build();
    HttpClient client = HttpClient.newHttpClient();
    var threads = Executors.newFixedThreadPool(Integer.parseInt(args[4]));
    for (int left = Integer.parseInt(args[3]); left > 0; left--) {
      threads.submit(() -> System.out.println(send(client, request)));
    }
    threads.shutdown();
  }

  static String send(HttpClient client, HttpRequest request) {
    try {
      return "" + client.send(request, HttpResponse.BodyHandlers.ofString()).statusCode();
    } catch (Exception error) {
      return error.toString().replace('\n', ' ');
    }
  }
}
