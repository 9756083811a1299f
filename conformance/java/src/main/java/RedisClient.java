// Works with a server through Jedis, with assertions.

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

public final class RedisClient {
    private static int checks = 0;

    private static synchronized void check(Object got, Object wanted) {
        checks++;
        if (!wanted.equals(got)) {
            throw new AssertionError("wanted " + wanted + ", got " + got);
        }
    }

    private static void refused(Runnable call, String words) {
        try {
            call.run();
        } catch (JedisDataException error) {
            check(error.getMessage().contains(words), true);
            return;
        }
        throw new AssertionError("wanted " + words);
    }

    private static void strings(Jedis client) {
        check(client.get("java:none") == null, true);
        check(client.set("java:a", "one"), "OK");
        check(client.set("java:a", "two", new SetParams().nx()) == null, true);
        check(client.setGet("java:a", "two", new SetParams().ex(100)), "one");
        check(client.ttl("java:a") > 98, true);
        check(client.append("java:a", "!"), 4L);
        check(client.getrange("java:a", 0, 1), "tw");
        check(client.getDel("java:a"), "two!");
        check(client.mset("java:x", "1", "java:y", "2"), "OK");
        List<String> wanted = new ArrayList<>(List.of("1", "", "2"));
        Collections.replaceAll(wanted, "", null);
        check(client.mget("java:x", "java:none", "java:y"), wanted);
        check(client.del("java:x", "java:y", "java:none"), 2L);
        String large = "x\r\n".repeat(300_000);
        check(client.set("java:large", large), "OK");
        check(client.get("java:large"), large);
        check(client.incrBy("java:n", -5), -5L);
        check(client.incrByFloat("java:f", 0.5), 0.5);
        refused(() -> client.incr("java:large"), "not an integer");
        refused(() -> client.lpush("java:list", "x"), "unknown command");
    }

    private static void many(Jedis client) {
        Pipeline pipeline = client.pipelined();
        List<Response<String>> replies = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            pipeline.set("java:many:" + i, Integer.toString(i));
            replies.add(pipeline.get("java:many:" + i));
        }
        pipeline.sync();
        for (int i = 0; i < 1000; i++) {
            check(replies.get(i).get(), Integer.toString(i));
        }
        Set<String> seen = new HashSet<>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanParams params = new ScanParams().match("java:many:*").count(100);
            ScanResult<String> page = client.scan(cursor, params);
            seen.addAll(page.getResult());
            cursor = page.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        check(seen.size(), 1000);
    }

    public static void main(String[] arguments) {
        HostAndPort server = new HostAndPort(arguments[0], Integer.parseInt(arguments[1]));
        for (RedisProtocol protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            var config = DefaultJedisClientConfig.builder().protocol(protocol).build();
            try (Jedis client = new Jedis(server, config)) {
                check(client.flushAll(), "OK");
                strings(client);
                many(client);
            }
        }
        try (JedisPooled pool = new JedisPooled(arguments[0], server.getPort())) {
            check(pool.incr("java:pooled"), 1L);
        }
        System.out.println(checks + " checks");
    }
}
