// Works with a server through spymemcached, with assertions: by the text protocol, or by the binary
// one if a third argument says so.

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Future;
import java.util.logging.Level;
import java.util.logging.Logger;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.MemcachedClient;

public final class Client {
    private static int checks;

    private static void check(Object got, Object wanted) {
        checks++;
        if (!Objects.equals(got, wanted)) {
            throw new AssertionError("wanted " + wanted + ", got " + got);
        }
    }

    private static void storage(MemcachedClient client) throws Exception {
        check(client.set("java:a", 100, "one").get(), true);
        check(client.get("java:a"), "one");
        check(client.get("java:none"), null);
        check(client.add("java:a", 100, "two").get(), false);
        check(client.add("java:b", 100, "two").get(), true);
        check(client.replace("java:none", 100, "x").get(), false);
        check(client.replace("java:b", 100, "mid").get(), true);
        check(client.append("java:b", "-end").get(), true);
        check(client.prepend("java:b", "first-").get(), true);
        check(client.get("java:b"), "first-mid-end");
        check(client.delete("java:b").get(), true);
        check(client.delete("java:b").get(), false);
        check(client.set("java:list", 100, new ArrayList<>(List.of(1, 2, 3))).get(), true);
        check(client.get("java:list"), List.of(1, 2, 3));
        check(client.set("java:long", 100, 1L << 40).get(), true);
        check(client.get("java:long"), 1L << 40);
    }

    private static void uniques(MemcachedClient client) throws Exception {
        check(client.set("java:cas", 100, "1").get(), true);
        CASValue<Object> value = client.gets("java:cas");
        check(client.cas("java:cas", value.getCas(), "2"), CASResponse.OK);
        check(client.cas("java:cas", value.getCas(), "3"), CASResponse.EXISTS);
        check(client.cas("java:none", value.getCas(), "3"), CASResponse.NOT_FOUND);
        check(client.get("java:cas"), "2");
    }

    private static void counting(MemcachedClient client) throws Exception {
        check(client.incr("java:n", 1), -1L);
        check(client.incr("java:n", 1, 10L, 100), 10L);
        check(client.incr("java:n", 5), 15L);
        check(client.decr("java:n", 7), 8L);
        check(client.decr("java:n", 100), 0L);
    }

    private static void many(MemcachedClient client) throws Exception {
        Map<String, Object> values = new HashMap<>();
        List<Future<Boolean>> pending = new ArrayList<>();
        for (int i = 0; i < 2000; i++) {
            String key = "java:many:" + i;
            values.put(key, "value ".repeat(1 + i % 50) + i);
            pending.add(client.set(key, 100, values.get(key)));
        }
        for (Future<Boolean> stored : pending) {
            check(stored.get(), true);
        }
        check(client.getBulk(values.keySet()), values);
        byte[] large = new byte[900_000];
        for (int i = 0; i < large.length; i++) {
            large[i] = (byte) (i * 31);
        }
        check(client.set("java:large", 100, large).get(), true);
        byte[] got = (byte[]) client.get("java:large");
        check(java.util.Arrays.equals(got, large), true);
    }

    private static void times(MemcachedClient client) throws Exception {
        check(client.set("java:short", 1, "x").get(), true);
        check(client.set("java:touched", 1, "x").get(), true);
        check(client.touch("java:touched", 100).get(), true);
        Thread.sleep(2100);
        check(client.get("java:short"), null);
        check(client.get("java:touched"), "x");
    }

    public static void main(String[] arguments) throws Exception {
        Logger.getLogger("net.spy.memcached").setLevel(Level.SEVERE);
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
        String address = arguments[0] + ":" + arguments[1];
        var protocol = arguments.length > 2 && arguments[2].equals("binary")
            ? ConnectionFactoryBuilder.Protocol.BINARY
            : ConnectionFactoryBuilder.Protocol.TEXT;
        var settings = new ConnectionFactoryBuilder()
            .setProtocol(protocol)
            .setOpTimeout(10_000);
        var client = new MemcachedClient(settings.build(), AddrUtil.getAddresses(address));
        try {
            storage(client);
            uniques(client);
            counting(client);
            many(client);
            times(client);
            check(client.getStats().size(), 1);
            check(client.getVersions().values().iterator().next().startsWith("1.6"), true);
            check(client.flush().get(), true);
        } finally {
            client.shutdown();
        }
        System.out.println(checks + " checks");
    }
}
