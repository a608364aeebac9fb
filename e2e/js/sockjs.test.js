// npm centrifuge over npm sockjs-client, in each of its transports that Node.js has. A session needs
// one node, so there is no cluster here.
import { describe, test } from 'node:test';
import assert from 'node:assert/strict';
import SockJS from 'sockjs-client';
import { Centrifuge } from 'centrifuge';
import { Inbox, Publisher, api, inSeconds, patience, publish, rig, token, unique } from './harness.js';

const clientEvents = ['connecting', 'connected', 'disconnected', 'error', 'message', 'publication'];
const subscriptionEvents = ['subscribing', 'subscribed', 'unsubscribed', 'publication', 'join', 'error'];

// connect makes a client over one transport of SockJS.
function connect(t, transport, options = {}, base = rig.http) {
  const inner = new Centrifuge([{ transport: 'sockjs', endpoint: `${base}/connection/sockjs` }], {
    sockjs: SockJS, sockjsOptions: { transports: [transport], timeout: patience }, token: token({ sub: unique('user') }),
    minReconnectDelay: 5, maxReconnectDelay: 50, timeout: patience, ...options,
  });
  t.after(() => inner.disconnect());
  const inbox = new Inbox(inner, clientEvents);
  inner.connect();
  return { inner, next: e => inbox.next(e), none: e => inbox.none(e) };
}

async function subscribe(client, channel, options) {
  const inner = client.inner.newSubscription(channel, { minResubscribeDelay: 5, maxResubscribeDelay: 50, ...options });
  const inbox = new Inbox(inner, subscriptionEvents);
  inner.subscribe();
  const first = await inbox.next('subscribed');
  return { inner, first, next: e => inbox.next(e), number: async () => (await inbox.next('publication')).data.n };
}

// proxy relays to the server, and can cut its connections.
async function proxy() {
  const post = async path => {
    const response = await fetch(rig.control + path, { method: 'POST' });
    assert.ok(response.ok, path);
    return response;
  };
  const { id, url } = await (await post('/proxies?to=main')).json();
  return { url: `http://${new URL(url).host}`, cut: () => post(`/proxies/${id}/cut`) };
}

const scenarios = {
  async 'publish and receive'(t, transport) {
    const channel = unique('room:');
    const [alice, bob] = [connect(t, transport), connect(t, transport)];
    assert.equal((await alice.next('connected')).transport, `sockjs-${transport}`);
    const subs = [await subscribe(alice, channel, { joinLeave: true }), await subscribe(bob, channel)];
    for (let n = 1; n <= 50; n++) {
      if (n % 2) await subs[0].inner.publish({ n, text: '</script> %41 "\u2028" ❤' });
      else await publish(channel, n);
    }
    for (const sub of subs) {
      for (let n = 1; n <= 50; n++) {
        const { data } = await sub.next('publication');
        assert.equal(data.n, n);
        if (n % 2) assert.equal(data.text, '</script> %41 "\u2028" ❤');
      }
    }
    assert.equal((await subs[0].inner.presenceStats()).numUsers, 2);
    assert.equal((await subs[1].inner.history({ limit: -1 })).publications.length, 50);
    alice.none('error');
  },

  async 'large messages'(t, transport) {
    const channel = unique('room:');
    const client = connect(t, transport);
    const sub = await subscribe(client, channel);
    const large = 'x'.repeat(60_000);
    for (let n = 0; n < 10; n++) await api('publish', { channel, data: { n, large } }); // more than a response may have
    for (let n = 0; n < 10; n++) assert.deepEqual((await sub.next('publication')).data, { n, large });
  },

  async 'recovery over cut connections'(t, transport) {
    const channel = unique('stream:');
    const way = await proxy();
    const client = connect(t, transport, {}, way.url);
    const sub = await subscribe(client, channel);
    const publisher = new Publisher(channel);
    for (let i = 0; i < 3; i++) {
      await publisher.more(20);
      await way.cut();
      if (transport === 'xhr-polling') continue; // nothing is cut between two polls
      // In Node.js sockjs-client does not always notice the end of a response, but that of a request.
      sub.inner.history({ limit: 0 }).catch(() => {});
      const ctx = await sub.next('subscribed');
      assert.deepEqual([ctx.wasRecovering, ctx.recovered], [true, true]);
    }
    const count = await publisher.finish();
    for (let n = 1; n <= count; n++) assert.equal(await sub.number(), n);
  },

  async 'refused token'(t, transport) {
    const client = connect(t, transport, { token: 'garbage' });
    assert.deepEqual(await client.next('disconnected'), { code: 3500, reason: 'invalid token' });
  },

  async 'expired token is replaced'(t, transport) {
    let asked = 0;
    const client = connect(t, transport, {
      token: token({ sub: 'x', exp: inSeconds(-60) }),
      getToken: async () => { asked++; return token({ sub: 'x', exp: inSeconds(3600) }); },
    });
    await client.next('connected');
    assert.equal(asked, 1);
  },

  async 'disconnects'(t, transport) {
    const user = unique('user');
    const client = connect(t, transport, { token: token({ sub: user }) });
    await client.next('connected');
    await client.next('connecting'); // that of the beginning
    await api('disconnect', { user, disconnect: { code: 3011, reason: 'force reconnect' } });
    assert.deepEqual(await client.next('connecting'), { code: 3011, reason: 'force reconnect' });
    await client.next('connected');
    await api('disconnect', { user });
    assert.deepEqual(await client.next('disconnected'), { code: 3503, reason: 'force disconnect' });
  },
};

describe('centrifuge-js over sockjs-client', { concurrency: true, skip: rig.nodes !== '1' && 'a session needs one node' }, () => {
  for (const transport of ['websocket', 'xhr-streaming', 'xhr-polling', 'eventsource']) {
    for (const [name, run] of Object.entries(scenarios)) test(`${transport}: ${name}`, t => run(t, transport));
  }
});
