import io.github.centrifugal.centrifuge.*;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * The server against centrifuge-java, which speaks Protobuf. The scenarios bear the names of those of the other SDKs (../gosdk, ../js,
 * ../python); this SDK has no deltas. The rig (../internal/rig) runs it: E2E_RIG has the addresses.
 */
public class Scenarios {
    /** Bounds every wait for an event, in seconds; only a fault takes as long. */
    static final int PATIENCE = 60;

    /** How often a connection is lost in the recovery scenarios. */
    static final int ROUNDS = 10;

    static final HttpClient HTTP = HttpClient.newHttpClient();
    static final AtomicInteger NAMES = new AtomicInteger();
    static final List<Peer> OPEN = Collections.synchronizedList(new ArrayList<>());

    interface Scenario {
        void run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        Map<String, Scenario> all = new LinkedHashMap<>();
        all.put("connect with a token", Scenarios::connectWithAToken);
        all.put("refused tokens", Scenarios::refusedTokens);
        all.put("expired token is replaced", Scenarios::expiredTokenIsReplaced);
        all.put("publish and receive", Scenarios::publishAndReceive);
        all.put("presence", Scenarios::presence);
        all.put("join and leave", Scenarios::joinAndLeave);
        all.put("history", Scenarios::history);
        all.put("calls", Scenarios::calls);
        all.put("recovery over cut connections", Scenarios::recoveryOverCutConnections);
        all.put("recovery after a server's disconnect", Scenarios::recoveryAfterAServersDisconnect);
        all.put("unrecoverable position", Scenarios::unrecoverablePosition);
        all.put("connection token refresh", Scenarios::connectionTokenRefresh);
        all.put("subscription token refresh", Scenarios::subscriptionTokenRefresh);
        all.put("server-side subscriptions of a token", Scenarios::serverSideSubscriptionsOfAToken);
        all.put("server-side subscriptions of the API", Scenarios::serverSideSubscriptionsOfTheAPI);
        all.put("disconnect and unsubscribe", Scenarios::disconnectAndUnsubscribe);
        int failed = 0;
        for (Map.Entry<String, Scenario> s : all.entrySet()) {
            try {
                s.getValue().run();
                System.out.println("ok: " + s.getKey());
            } catch (Throwable t) {
                failed++;
                System.out.println("not ok: " + s.getKey());
                t.printStackTrace(System.out);
            }
            for (Peer p : OPEN) {
                p.inner.disconnect();
            }
            OPEN.clear();
        }
        System.out.println((all.size() - failed) + " passed, " + failed + " failed");
        System.exit(failed > 0 ? 1 : 0);
    }

    static void connectWithAToken() throws Exception {
        Peer c = new Peer().open();
        same(36, c.id.length());
    }

    static void refusedTokens() throws Exception {
        for (String bad : List.of(token("\"sub\":\"x\"") + "AA", "garbage", token("\"sub\":\"x\",\"channel\":\"room:x\""))) {
            Peer c = new Peer(rig("ws"), o -> o.setToken(bad));
            c.inner.connect();
            DisconnectedEvent e = c.next("disconnected");
            same(3500, e.getCode());
            same("invalid token", e.getReason());
        }
        // The server says 109, and the SDK has nothing to get another token from.
        Peer c = new Peer(rig("ws"), o -> o.setToken(token("\"sub\":\"x\",\"exp\":" + in(-60))));
        c.inner.connect();
        same(1, ((DisconnectedEvent) c.next("disconnected")).getCode());
    }

    static void expiredTokenIsReplaced() throws Exception {
        LinkedBlockingQueue<String> asked = new LinkedBlockingQueue<>();
        new Peer(rig("ws"), o -> {
            o.setToken(token("\"sub\":\"x\",\"exp\":" + in(-60)));
            o.setTokenGetter(tokens(asked, () -> token("\"sub\":\"x\",\"exp\":" + in(3600))));
        }).open();
        take(asked, "a call for a token");
    }

    static void publishAndReceive() throws Exception {
        String channel = unique("room:");
        Peer alice = new Peer().open(), bob = new Peer().open();
        Sub[] subs = {alice.subscribe(channel), bob.subscribe(channel)};
        Scenarios.<PublishResult>call(done -> subs[0].inner.publish(bytes("{\"n\":1}"), done));
        for (Sub s : subs) {
            PublicationEvent p = s.next("publication");
            same("{\"n\":1}", text(p.getData()));
            same(alice.user, p.getInfo().getUser());
            same(1L, p.getOffset());
        }
        api("publish", "{\"channel\":\"" + channel + "\",\"data\":{\"n\":2},\"tags\":{\"lang\":\"en\"}}");
        for (Sub s : subs) {
            PublicationEvent p = s.next("publication");
            same("{\"n\":2}", text(p.getData()));
            same(Map.of("lang", "en"), p.getTags());
            same(2L, p.getOffset());
        }
    }

    static void presence() throws Exception {
        String channel = unique("room:");
        Peer alice = new Peer(rig("ws"), o -> o.setToken(token("\"sub\":\"alice\",\"info\":{\"name\":\"Alice\"}"))).open();
        Sub a = alice.subscribe(channel);
        for (int i = 0; i < 2; i++) {
            new Peer(rig("ws"), o -> o.setToken(token("\"sub\":\"bob\""))).open().subscribe(channel);
        }
        PresenceResult here = Scenarios.<PresenceResult>call(a.inner::presence);
        List<String> users = new ArrayList<>();
        for (Map.Entry<String, ClientInfo> e : here.getClients().entrySet()) {
            same(e.getKey(), e.getValue().getClient());
            users.add(e.getValue().getUser());
        }
        Collections.sort(users);
        same(List.of("alice", "bob", "bob"), users);
        same("{\"name\":\"Alice\"}", text(here.getClients().get(alice.id).getConnInfo()));
        PresenceStatsResult stats = Scenarios.<PresenceStatsResult>call(a.inner::presenceStats);
        same(3, stats.getNumClients());
        same(2, stats.getNumUsers());
    }

    static void joinAndLeave() throws Exception {
        String channel = unique("room:");
        Peer alice = new Peer().open(), bob = new Peer().open();
        SubscriptionOptions o = new SubscriptionOptions();
        o.setJoinLeave(true);
        Sub a = alice.subscribe(channel, o);
        same(alice.user, ((JoinEvent) a.next("join")).getInfo().getUser());
        Sub b = bob.subscribe(channel);
        same(bob.user, ((JoinEvent) a.next("join")).getInfo().getUser());
        b.inner.unsubscribe();
        same(bob.user, ((LeaveEvent) a.next("leave")).getInfo().getUser());
    }

    static void history() throws Exception {
        String channel = unique("room:");
        Sub s = new Peer().open().subscribe(channel);
        for (int n = 1; n <= 10; n++) {
            publish(channel, n);
        }
        HistoryResult top = read(s, new HistoryOptions.Builder().withLimit(0).build());
        same(10L, top.getOffset());
        same(0, top.getPublications().size());
        same("[1, 2, 3]", numbers(read(s, new HistoryOptions.Builder().withLimit(3).build())));
        same("[10, 9]", numbers(read(s, new HistoryOptions.Builder().withLimit(2).withReverse(true).build())));
        StreamPosition since = new StreamPosition(4, top.getEpoch());
        same("[5, 6]", numbers(read(s, new HistoryOptions.Builder().withLimit(2).withSince(since).build())));
        same("[3, 2, 1]", numbers(read(s, new HistoryOptions.Builder().withLimit(-1).withSince(since).withReverse(true).build())));
        StreamPosition other = new StreamPosition(4, "other");
        refused(112, () -> read(s, new HistoryOptions.Builder().withLimit(1).withSince(other).build()));
    }

    static void calls() throws Exception {
        Peer c = new Peer().open();
        RPCResult r = Scenarios.<RPCResult>call(done -> c.inner.rpc("update_user_status", bytes("{}"), done));
        same(null, r.getError());
        refused(108, () -> Scenarios.<RPCResult>call(done -> c.inner.rpc("unknown", bytes("{}"), done)));
        refused(103, () -> Scenarios.<HistoryResult>call(done -> c.inner.history(unique("room:"), new HistoryOptions.Builder().withLimit(1).build(), done)));
    }

    static void recoveryOverCutConnections() throws Exception {
        String channel = unique("stream:");
        Proxy proxy = new Proxy();
        Peer c = new Peer(proxy.url, o -> { });
        Sub s = c.subscription(channel, new SubscriptionOptions());
        c.open();
        SubscribedEvent first = s.next("subscribed");
        same(true, first.getRecoverable());
        same(false, first.wasRecovering());
        int n = 0;
        for (int round = 0; round < ROUNDS; round++) {
            publish(channel, ++n); // delivered live, or in the midst of a cut
            if (round % 2 == 0) {
                proxy.act("down");
                publish(channel, ++n); // missed
                publish(channel, ++n);
                proxy.act("up");
            } else {
                proxy.act("cut");
                publish(channel, ++n);
            }
            SubscribedEvent again = s.next("subscribed");
            same(true, again.wasRecovering());
            same(true, again.getRecovered());
        }
        exactly(s.inbox, n);
    }

    static void recoveryAfterAServersDisconnect() throws Exception {
        String channel = unique("stream:");
        Peer c = new Peer().open();
        Sub s = c.subscribe(channel);
        int n = 0;
        for (int round = 0; round < ROUNDS; round++) {
            publish(channel, ++n);
            api("disconnect", "{\"user\":\"" + c.user + "\",\"disconnect\":{\"code\":4100,\"reason\":\"come back\"}}");
            publish(channel, ++n);
            SubscribedEvent again = s.next("subscribed");
            same(true, again.wasRecovering());
            same(true, again.getRecovered());
        }
        exactly(s.inbox, n);
    }

    static void unrecoverablePosition() throws Exception {
        String channel = unique("small:"); // keeps two publications
        Proxy proxy = new Proxy();
        Peer c = new Peer(proxy.url, o -> { });
        Sub s = c.subscription(channel, new SubscriptionOptions());
        c.open();
        s.next("subscribed");
        publish(channel, 1);
        same(1, number(((PublicationEvent) s.next("publication")).getData()));
        proxy.act("down");
        for (int n = 2; n <= 4; n++) {
            publish(channel, n);
        }
        proxy.act("up");
        SubscribedEvent lost = s.next("subscribed");
        same(true, lost.wasRecovering());
        same(false, lost.getRecovered());
        publish(channel, 5);
        same(5, number(((PublicationEvent) s.next("publication")).getData()));
    }

    static void connectionTokenRefresh() throws Exception {
        LinkedBlockingQueue<String> asked = new LinkedBlockingQueue<>();
        Peer c = new Peer(rig("ws"), o -> {
            o.setToken("");
            o.setTokenGetter(tokens(asked, () -> token("\"sub\":\"x\",\"exp\":" + in(2))));
        }).open();
        for (int i = 0; i < 3; i++) { // the first one and two refreshes
            take(asked, "a call for a token");
        }
        refused(108, () -> Scenarios.<RPCResult>call(done -> c.inner.rpc("unknown", bytes("{}"), done))); // still answered
    }

    static void subscriptionTokenRefresh() throws Exception {
        String channel = unique("$room:");
        LinkedBlockingQueue<String> asked = new LinkedBlockingQueue<>();
        Peer c = new Peer().open();
        SubscriptionOptions o = new SubscriptionOptions();
        o.setTokenGetter(new SubscriptionTokenGetter() {
            @Override
            public void getSubscriptionToken(SubscriptionTokenEvent e, TokenCallback done) {
                asked.add(e.getChannel());
                done.Done(null, token("\"sub\":\"" + c.user + "\",\"channel\":\"" + channel + "\",\"exp\":" + in(2)));
            }
        });
        Sub s = c.subscribe(channel, o);
        for (int i = 0; i < 3; i++) {
            same(channel, take(asked, "a call for a token"));
        }
        publish(channel, 1);
        same(1, number(((PublicationEvent) s.next("publication")).getData()));
    }

    static void serverSideSubscriptionsOfAToken() throws Exception {
        String channel = unique("stream:");
        Proxy proxy = new Proxy();
        Peer c = new Peer(proxy.url, o -> o.setToken(token("\"sub\":\"x\",\"subs\":{\"" + channel + "\":{\"data\":{\"welcome\":true}}}")));
        c.open();
        ServerSubscribedEvent first = c.next("subscribed");
        same(channel, first.getChannel());
        same("{\"welcome\":true}", text(first.getData()));
        int n = 0;
        for (int round = 0; round < ROUNDS; round++) {
            publish(channel, ++n);
            proxy.act("down");
            publish(channel, ++n);
            proxy.act("up");
            same(true, ((ServerSubscribedEvent) c.next("subscribed")).getRecovered());
        }
        exactly(c.inbox, n);
    }

    static void serverSideSubscriptionsOfTheAPI() throws Exception {
        String channel = unique("room:");
        Peer c = new Peer().open();
        api("subscribe", "{\"user\":\"" + c.user + "\",\"channel\":\"" + channel + "\",\"data\":{\"by\":\"api\"}}");
        ServerSubscribedEvent e = c.next("subscribed");
        same(channel, e.getChannel());
        same("{\"by\":\"api\"}", text(e.getData()));
        publish(channel, 1);
        same(1, number(((ServerPublicationEvent) c.next("publication")).getData()));
        api("unsubscribe", "{\"user\":\"" + c.user + "\",\"channel\":\"" + channel + "\"}");
        same(channel, ((ServerUnsubscribedEvent) c.next("unsubscribed")).getChannel());
    }

    static void disconnectAndUnsubscribe() throws Exception {
        String channel = unique("room:");
        Peer c = new Peer().open();
        Sub s = c.subscribe(channel);
        s.inner.unsubscribe();
        same(0, ((UnsubscribedEvent) s.next("unsubscribed")).getCode());
        s.inner.subscribe();
        s.next("subscribed");
        api("unsubscribe", "{\"user\":\"" + c.user + "\",\"channel\":\"" + channel + "\"}");
        UnsubscribedEvent u = s.next("unsubscribed");
        same(2000, u.getCode());
        same("server unsubscribe", u.getReason());
        api("disconnect", "{\"user\":\"" + c.user + "\",\"disconnect\":{\"code\":4500,\"reason\":\"go\"}}");
        DisconnectedEvent d = c.next("disconnected");
        same(4500, d.getCode());
        same("go", d.getReason());
        c.open();
        c.inner.disconnect();
        same(0, ((DisconnectedEvent) c.next("disconnected")).getCode());
    }

    /** Events by name, until somebody wants them. */
    static class Inbox {
        private final Map<String, BlockingQueue<Object>> queues = new ConcurrentHashMap<>();

        BlockingQueue<Object> of(String event) {
            return queues.computeIfAbsent(event, name -> new LinkedBlockingQueue<>());
        }

        void put(String event, Object e) {
            of(event).add(e);
        }

        @SuppressWarnings("unchecked")
        <T> T next(String event) throws Exception {
            return (T) take(of(event), event);
        }
    }

    /** A client of the SDK and its events. */
    static class Peer {
        final Inbox inbox = new Inbox();
        final String user = unique("user");
        final Client inner;
        String id;

        Peer() {
            this(rig("ws"), o -> { });
        }

        Peer(String url, Consumer<Options> with) {
            Options o = new Options();
            o.setToken(token("\"sub\":\"" + user + "\""));
            o.setTimeout(PATIENCE * 1000);
            o.setMinReconnectDelay(5);
            o.setMaxReconnectDelay(50);
            with.accept(o);
            inner = new Client(url, o, new EventListener() {
                @Override
                public void onConnected(Client c, ConnectedEvent e) {
                    inbox.put("connected", e);
                }

                @Override
                public void onDisconnected(Client c, DisconnectedEvent e) {
                    inbox.put("disconnected", e);
                }

                @Override
                public void onSubscribed(Client c, ServerSubscribedEvent e) {
                    inbox.put("subscribed", e);
                }

                @Override
                public void onUnsubscribed(Client c, ServerUnsubscribedEvent e) {
                    inbox.put("unsubscribed", e);
                }

                @Override
                public void onPublication(Client c, ServerPublicationEvent e) {
                    inbox.put("publication", e);
                }
            });
            OPEN.add(this);
        }

        <T> T next(String event) throws Exception {
            return inbox.next(event);
        }

        Peer open() throws Exception {
            inner.connect();
            id = ((ConnectedEvent) next("connected")).getClient();
            return this;
        }

        Sub subscription(String channel, SubscriptionOptions o) throws Exception {
            return new Sub(this, channel, o);
        }

        Sub subscribe(String channel) throws Exception {
            return subscribe(channel, new SubscriptionOptions());
        }

        Sub subscribe(String channel, SubscriptionOptions o) throws Exception {
            Sub s = subscription(channel, o);
            s.next("subscribed");
            return s;
        }
    }

    /** A subscription and its events. */
    static class Sub {
        final Inbox inbox = new Inbox();
        final Subscription inner;

        Sub(Peer of, String channel, SubscriptionOptions o) throws Exception {
            o.setMinResubscribeDelay(5);
            o.setMaxResubscribeDelay(50);
            inner = of.inner.newSubscription(channel, o, new SubscriptionEventListener() {
                @Override
                public void onSubscribed(Subscription s, SubscribedEvent e) {
                    inbox.put("subscribed", e);
                }

                @Override
                public void onUnsubscribed(Subscription s, UnsubscribedEvent e) {
                    inbox.put("unsubscribed", e);
                }

                @Override
                public void onPublication(Subscription s, PublicationEvent e) {
                    inbox.put("publication", e);
                }

                @Override
                public void onJoin(Subscription s, JoinEvent e) {
                    inbox.put("join", e);
                }

                @Override
                public void onLeave(Subscription s, LeaveEvent e) {
                    inbox.put("leave", e);
                }
            });
            inner.subscribe();
        }

        <T> T next(String event) throws Exception {
            return inbox.next(event);
        }
    }

    /** A TCP proxy of the rig in front of the server. */
    static class Proxy {
        final String id, url;

        Proxy() throws Exception {
            String answer = post(rig("control") + "/proxies?to=main", "");
            id = member(answer, "id");
            url = member(answer, "url");
        }

        void act(String action) throws Exception {
            post(rig("control") + "/proxies/" + id + "/" + action, "");
        }
    }

    static String rig(String name) {
        return member(System.getenv("E2E_RIG"), name);
    }

    /** A member of a JSON object, whose value has no escapes. */
    static String member(String json, String name) {
        Matcher m = Pattern.compile("\"" + name + "\":\\s*\"?([^\",}]*)").matcher(json);
        if (!m.find()) {
            throw new IllegalStateException("no " + name + " in " + json);
        }
        return m.group(1);
    }

    static String unique(String prefix) {
        return prefix + "java" + ProcessHandle.current().pid() + "-" + NAMES.incrementAndGet();
    }

    static long in(long seconds) {
        return System.currentTimeMillis() / 1000 + 1 + seconds;
    }

    /** Signs claims (HS256). */
    static String token(String claims) {
        try {
            Base64.Encoder encoder = Base64.getUrlEncoder().withoutPadding();
            String signed = encoder.encodeToString(bytes("{\"alg\":\"HS256\",\"typ\":\"JWT\"}")) + "." + encoder.encodeToString(bytes("{" + claims + "}"));
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(bytes(rig("tokenSecret")), "HmacSHA256"));
            return signed + "." + encoder.encodeToString(mac.doFinal(bytes(signed)));
        } catch (java.security.GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    static ConnectionTokenGetter tokens(BlockingQueue<String> asked, java.util.function.Supplier<String> next) {
        return new ConnectionTokenGetter() {
            @Override
            public void getConnectionToken(ConnectionTokenEvent e, TokenCallback done) {
                asked.add("");
                done.Done(null, next.get());
            }
        };
    }

    static String post(String url, String body) throws Exception {
        HttpRequest q = HttpRequest.newBuilder(URI.create(url)).header("X-API-Key", rig("apiKey")).POST(HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> r = HTTP.send(q, HttpResponse.BodyHandlers.ofString());
        if (r.statusCode() != 200 || r.body().contains("\"error\":{")) {
            throw new IllegalStateException(url + ": " + r.statusCode() + " " + r.body());
        }
        return r.body();
    }

    static void api(String method, String params) throws Exception {
        post(rig("http") + "/api/" + method, params);
    }

    static void publish(String channel, int n) throws Exception {
        api("publish", "{\"channel\":\"" + channel + "\",\"data\":{\"n\":" + n + "}}");
    }

    interface Call<T> {
        void start(ResultCallback<T> done) throws Exception;
    }

    static <T> T call(Call<T> c) throws Exception {
        CompletableFuture<T> result = new CompletableFuture<>();
        c.start((error, r) -> {
            if (error != null) {
                result.completeExceptionally(error);
            } else {
                result.complete(r);
            }
        });
        return result.get(PATIENCE, TimeUnit.SECONDS);
    }

    static void refused(int code, Scenario call) throws Exception {
        try {
            call.run();
        } catch (ExecutionException e) {
            if (!(e.getCause() instanceof ReplyError)) {
                throw e;
            }
            same(code, ((ReplyError) e.getCause()).getCode());
            return;
        }
        throw new AssertionError("no error " + code);
    }

    static HistoryResult read(Sub s, HistoryOptions o) throws Exception {
        return Scenarios.<HistoryResult>call(done -> s.inner.history(o, done));
    }

    static String numbers(HistoryResult r) {
        List<Integer> list = new ArrayList<>();
        for (Publication p : r.getPublications()) {
            list.add(number(p.getData()));
        }
        return list.toString();
    }

    static int number(byte[] data) {
        return Integer.parseInt(member(text(data), "n"));
    }

    /** 1 to n arrive in order, each once. */
    static void exactly(Inbox inbox, int n) throws Exception {
        for (int want = 1; want <= n; want++) {
            Object e = inbox.next("publication");
            boolean own = e instanceof PublicationEvent;
            same(want, number(own ? ((PublicationEvent) e).getData() : ((ServerPublicationEvent) e).getData()));
            same((long) want, own ? ((PublicationEvent) e).getOffset() : ((ServerPublicationEvent) e).getOffset());
        }
        same(0, inbox.of("publication").size());
    }

    static <T> T take(BlockingQueue<T> queue, String what) throws Exception {
        T e = queue.poll(PATIENCE, TimeUnit.SECONDS);
        if (e == null) {
            throw new AssertionError("no " + what + " within " + PATIENCE + " s");
        }
        return e;
    }

    static void same(Object want, Object got) {
        if (!Objects.equals(want, got)) {
            throw new AssertionError("got " + got + ", want " + want);
        }
    }

    static byte[] bytes(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] b) {
        return new String(b, StandardCharsets.UTF_8);
    }
}
