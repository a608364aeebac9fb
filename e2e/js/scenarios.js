// The server against npm centrifuge. The same scenarios run in Node.js (sdk.test.js) and in Chromium
// (chromium.test.js), over each transport, in JSON and Protobuf; those of the other SDKs (../gosdk,
// ../python) bear the same names.
import { describe, test } from 'node:test';
import assert from 'node:assert/strict';
import { rounds, pick, rejectsWith, recovery, recovered, exactly, counter, withResolvers } from './checks.js';
import { SDK, api, control, inNode, inSeconds, publish, rig, token, unique } from './harness.js';
import { patience } from './patience.js';
import { mapScenarios } from './maps.js';

const scenarios = {
  async 'connect with a token'(sdk) {
    const ctx = await sdk.client().open();
    assert.match(ctx.client, /^[0-9a-f-]{36}$/);
    assert.equal(ctx.transport, sdk.transport);
  },

  async 'refused tokens'(sdk) {
    for (const bad of [
      token({ sub: 'x' }) + 'AA', // wrong signature
      'eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJ4In0.', // alg: none
      'garbage',
      token({ sub: 'x', channel: 'room:x' }), // a subscription's
    ]) {
      const c = sdk.client({ token: bad });
      await c.dial();
      assert.deepEqual(await c.next('disconnected'), { code: 3500, reason: 'invalid token' });
    }
    // The server says 109 and the SDK has nothing to get another token from.
    const c = sdk.client({ token: token({ sub: 'x', exp: inSeconds(-60) }) });
    await c.dial();
    assert.deepEqual(await c.next('disconnected'), { code: 1, reason: 'unauthorized' });
  },

  async 'expired token is replaced'(sdk) {
    let asked = 0;
    await sdk.connect({
      token: token({ sub: 'x', exp: inSeconds(-60) }),
      getToken: async () => {
        asked++;
        return token({ sub: 'x', exp: inSeconds(3600) });
      },
    });
    assert.equal(asked, 1);
  },

  async 'publish and receive'(sdk) {
    const channel = unique('room:');
    const [alice, bob] = await Promise.all([sdk.connect(), sdk.connect()]);
    const subs = await Promise.all([alice.subscribe(channel), bob.subscribe(channel)]);
    await subs[0].inner.publish(sdk.encode({ n: 1 }));
    for (const sub of subs) {
      const pub = await sub.next('publication');
      assert.deepEqual(sdk.decode(pub.data), { n: 1 });
      assert.equal(pub.info.user, alice.user);
      assert.equal(Number(pub.offset), 1);
    }
    await api('publish', { channel, data: { n: 2 }, tags: { lang: 'en' } });
    for (const sub of subs) {
      const pub = await sub.next('publication');
      assert.deepEqual(sdk.decode(pub.data), { n: 2 });
      assert.deepEqual({ ...pub.tags }, { lang: 'en' });
      assert.equal(pub.info, undefined);
      assert.equal(Number(pub.offset), 2);
    }
  },

  // Together they are more than a response of SockJS may have.
  async 'large and odd messages'(sdk) {
    const channel = unique('room:');
    const sub = await (await sdk.connect()).subscribe(channel);
    const odd = '</script> %41 "\u2028" \0 ❤',
      large = 'x'.repeat(60_000);
    for (let n = 0; n < 10; n++) {
      await sub.inner.publish(sdk.encode({ n, odd }));
      await api('publish', { channel, data: { n, large } });
    }
    for (let n = 0; n < 10; n++) {
      assert.deepEqual(sdk.decode((await sub.next('publication')).data), { n, odd });
      assert.deepEqual(sdk.decode((await sub.next('publication')).data), { n, large });
    }
  },

  async 'presence'(sdk) {
    const channel = unique('room:');
    const alice = await sdk.connect({ token: token({ sub: 'alice', info: { name: 'Alice' } }) });
    const a = await alice.subscribe(channel);
    for (let i = 0; i < 2; i++) await (await sdk.connect({ token: token({ sub: 'bob' }) })).subscribe(channel);
    const { clients } = await a.inner.presence();
    const users = Object.values(clients)
      .map(info => info.user)
      .sort();
    assert.deepEqual(users, ['alice', 'bob', 'bob']);
    for (const [id, info] of Object.entries(clients)) {
      assert.equal(info.client, id);
      if (info.user === 'alice') assert.deepEqual(sdk.decode(info.connInfo), { name: 'Alice' });
    }
    assert.deepEqual({ ...(await a.inner.presenceStats()) }, { numClients: 3, numUsers: 2 });
  },

  async 'join and leave'(sdk) {
    const channel = unique('room:');
    const [alice, bob] = await Promise.all([sdk.connect(), sdk.connect()]);
    const a = await alice.subscribe(channel, { joinLeave: true });
    assert.equal((await a.next('join')).info.user, alice.user);
    const b = await bob.subscribe(channel); // does not ask for them
    assert.equal((await a.next('join')).info.user, bob.user);
    b.inner.unsubscribe();
    assert.equal((await a.next('leave')).info.user, bob.user);
    b.inner.subscribe();
    assert.equal((await a.next('join')).info.user, bob.user);
    await publish(channel, 1);
    await b.next('publication');
    b.none('join');
    bob.inner.disconnect();
    assert.equal((await a.next('leave')).info.user, bob.user);
  },

  async 'history'(sdk) {
    const channel = unique('room:');
    const { inner: sub } = await (await sdk.connect()).subscribe(channel);
    for (let n = 1; n <= 10; n++) await publish(channel, n);
    const read = async options => (await sub.history(options)).publications.map(p => sdk.decode(p.data).n);
    const top = await sub.history({ limit: 0 });
    assert.equal(Number(top.offset), 10);
    assert.deepEqual(top.publications, []);
    assert.deepEqual(await read({ limit: 3 }), [1, 2, 3]);
    assert.deepEqual(await read({ limit: -1 }), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    assert.deepEqual(await read({ limit: 2, reverse: true }), [10, 9]);
    const since = { offset: 4, epoch: top.epoch };
    assert.deepEqual(await read({ limit: 2, since }), [5, 6]);
    assert.deepEqual(await read({ limit: -1, since, reverse: true }), [3, 2, 1]);
    await rejectsWith(read({ limit: 1, since: { offset: 4, epoch: 'other' } }), 112);
  },

  async 'many subscriptions in one go'(sdk) {
    const prefix = unique('room:many');
    const c = sdk.client();
    const subs = Array.from({ length: 100 }, (_, i) => c.subscription(`${prefix}-${i}`));
    await c.open();
    await Promise.all(subs.map(sub => sub.next('subscribed')));
    // The SDK puts the connect and all subscribe commands into one frame.
    if (sdk.transport === 'websocket') assert.equal(c.frames.length, 1, 'frames sent');
    await api('broadcast', { channels: subs.map(sub => sub.channel), data: { n: 7 } });
    for (const sub of subs) assert.equal(await sub.number(), 7);
    c.inner.startBatching();
    const calls = subs.map(sub => sub.inner.publish(sdk.encode({ n: 8 })));
    c.inner.stopBatching();
    await Promise.all(calls);
    for (const sub of subs) assert.equal(await sub.number(), 8);
  },

  async 'recovery over cut connections'(sdk) {
    const channel = unique('stream:');
    const proxy = await sdk.proxy();
    const c = sdk.client({}, proxy.url);
    const sub = c.subscription(channel);
    await c.open();
    const first = await sub.next('subscribed');
    assert.deepEqual(pick(first, 'recoverable', 'positioned', 'wasRecovering'), { recoverable: true, positioned: true, wasRecovering: false });
    const publisher = sdk.publisher(channel);
    for (let i = 0; i < rounds; i++) {
      await publisher.more(3); // delivered live
      // SockJS clients do not notice a cut between two requests.
      const lasting = i % 2 === 0 || sdk.kind === 'sockjs';
      await (lasting ? proxy.down() : proxy.cut()); // after a cut it is back at once, amid publications
      await c.next('connecting');
      if (lasting) {
        await publisher.more(3); // missed
        await proxy.up();
      }
      assert.deepEqual(recovery(await sub.next('subscribed')), recovered);
    }
    await exactly(sub, await publisher.finish());
  },

  async "recovery after a server's disconnect"(sdk) {
    const channel = unique('stream:');
    const c = await sdk.connect();
    const sub = await c.subscribe(channel);
    const publisher = sdk.publisher(channel);
    for (let i = 0; i < rounds; i++) {
      await publisher.more(3);
      await api('disconnect', { user: c.user, disconnect: { code: 4100, reason: 'come back' } });
      assert.deepEqual(await c.next('connecting'), { code: 4100, reason: 'come back' });
      assert.deepEqual(recovery(await sub.next('subscribed')), recovered);
    }
    await exactly(sub, await publisher.finish());
    // Of two nodes, the one that answers the API disconnects last. A client that has come back to it by then is
    // disconnected a second time.
    if (rig.apis.length === 1) c.none('connecting');
  },

  async 'unrecoverable position'(sdk) {
    const channel = unique('small:'); // keeps two publications
    const proxy = await sdk.proxy();
    const c = sdk.client({}, proxy.url);
    const sub = c.subscription(channel);
    await c.open();
    await sub.next('subscribed');
    await publish(channel, 1);
    assert.equal(await sub.number(), 1);
    const miss = async (from, to) => {
      await proxy.down();
      await c.next('connecting');
      for (let n = from; n <= to; n++) await publish(channel, n);
      await proxy.up();
      return sub.next('subscribed');
    };
    assert.deepEqual(recovery(await miss(2, 3)), recovered);
    assert.equal(await sub.number(), 2);
    assert.equal(await sub.number(), 3);
    const lost = await miss(4, 6);
    assert.deepEqual(recovery(lost), { wasRecovering: true, recovered: false });
    assert.equal(Number(lost.streamPosition.offset), 6);
    await publish(channel, 7);
    assert.equal(await sub.number(), 7);
  },

  async 'cache recovery'(sdk) {
    const channel = unique('latest:');
    for (let n = 1; n <= 3; n++) await publish(channel, n);
    const proxy = await sdk.proxy();
    const c = sdk.client({}, proxy.url);
    const sub = c.subscription(channel);
    await c.open();
    await sub.next('subscribed');
    assert.equal(await sub.number(), 3);
    await proxy.down();
    await c.next('connecting');
    for (let n = 4; n <= 9; n++) await publish(channel, n);
    await proxy.up();
    assert.deepEqual(recovery(await sub.next('subscribed')), recovered);
    assert.equal(await sub.number(), 9);
    sub.none('publication');
  },

  async 'connection token refresh'(sdk) {
    const asked = counter();
    const c = await sdk.connect({
      getToken: async () => {
        asked.hit();
        return token({ sub: 'x', exp: inSeconds(2) });
      },
    });
    await asked.reach(3); // the initial one and two refreshes
    await rejectsWith(c.inner.rpc('x', sdk.encode({})), 108); // still answered
    c.none('connecting');
  },

  async 'subscription token refresh'(sdk) {
    const channel = unique('$room:');
    const asked = counter();
    const c = await sdk.connect();
    const sub = await c.subscribe(channel, {
      getToken: async () => {
        asked.hit();
        return token({ sub: c.user, channel, exp: inSeconds(2) });
      },
    });
    await asked.reach(3);
    await publish(channel, 1);
    assert.equal(await sub.number(), 1);
    sub.none('subscribing');
  },

  // The refresh hangs until the server ends the subscription (2501), the SDK
  // subscribes with the token that it holds, is told that it is expired (109), and
  // gets another.
  async 'expired subscription gets a new token'(sdk) {
    const channel = unique('$room:');
    const expired = withResolvers();
    let calls = 0;
    const c = await sdk.connect();
    const sub = await c.subscribe(channel, {
      getToken: async () => {
        calls++;
        if (calls === 2) {
          await expired.promise;
          throw new Error('came too late');
        }
        return token({ sub: c.user, channel, exp: inSeconds(calls === 1 ? 2 : 3600) });
      },
    });
    assert.deepEqual(pick(await sub.next('subscribing'), 'code', 'reason'), { code: 2501, reason: 'subscription expired' });
    expired.resolve();
    await sub.next('subscribed');
    assert.equal(calls, 3);
    c.none('connecting');
  },

  async 'server-side subscriptions of a token'(sdk) {
    const plain = unique('stream:'),
      rich = unique('closed:'); // a token needs no permission
    const proxy = await sdk.proxy();
    const c = sdk.client({ token: token({ sub: 'x', subs: { [plain]: {}, [rich]: { data: { welcome: true } } } }) }, proxy.url);
    await c.open();
    for (let i = 0; i < 2; i++) {
      const e = await c.next('subscribed');
      if (e.channel === rich) assert.deepEqual(sdk.decode(e.data), { welcome: true });
      assert.equal(e.recoverable, e.channel === plain);
    }
    await publish(rich, 1);
    assert.equal((await c.next('publication')).channel, rich);
    const publisher = sdk.publisher(plain);
    for (let i = 0; i < rounds; i++) {
      await publisher.more(2);
      await proxy.down();
      await c.next('connecting');
      await publisher.more(2);
      await proxy.up();
      for (let k = 0; k < 2; k++) {
        const e = await c.next('subscribed');
        if (e.channel === plain) assert.deepEqual(recovery(e), recovered);
      }
    }
    await exactly(
      { next: e => c.next(e), none: e => c.none(e), number: async () => sdk.decode((await c.next('publication')).data).n },
      await publisher.finish(),
    );
  },

  async 'server-side subscriptions of the API'(sdk) {
    const channel = unique('room:');
    const c = await sdk.connect();
    await api('subscribe', {
      user: c.user,
      channel,
      data: { by: 'api' },
      info: { seat: 1 },
      override: { force_push_join_leave: { value: true } },
    });
    const e = await c.next('subscribed');
    assert.equal(e.channel, channel);
    assert.deepEqual(sdk.decode(e.data), { by: 'api' });
    assert.deepEqual(sdk.decode((await c.next('join')).info.chanInfo), { seat: 1 });
    await publish(channel, 1);
    assert.equal(sdk.decode((await c.next('publication')).data).n, 1);
    await api('unsubscribe', { user: c.user, channel });
    assert.equal((await c.next('unsubscribed')).channel, channel);

    const own = await c.subscribe(channel);
    await api('unsubscribe', { user: c.user, channel });
    assert.deepEqual(await own.next('unsubscribed'), { channel, code: 2000, reason: 'server unsubscribe' });
  },

  async 'delta'(sdk) {
    const channel = unique('delta:');
    const subs = [await (await sdk.connect()).subscribe(channel, { delta: 'fossil' }), await (await sdk.connect()).subscribe(channel)];
    const text = 'the same text again and again, '.repeat(20) + 'ünïcode 🚀';
    for (let n = 1; n <= 20; n++) {
      await api('publish', { channel, data: { n, text, odd: n % 3 === 0 } });
      for (const sub of subs) assert.deepEqual(sdk.decode((await sub.next('publication')).data), { n, text, odd: n % 3 === 0 });
    }
    assert.deepEqual(pick(await subs[0].inner.deltaStats(), 'numFullPayloads', 'numDeltaPayloads'), { numFullPayloads: 1, numDeltaPayloads: 19 });
    assert.equal((await subs[1].inner.deltaStats()).numDeltaPayloads, 0);
  },

  async 'numbers instead of names, batches of the newest, debounced publishing'(sdk) {
    const channel = unique('short:');
    const [alice, bob] = await Promise.all([sdk.connect(), sdk.connect()]);
    const a = await alice.subscribe(channel);
    assert.equal((await a.next('join')).info.user, alice.user);
    const b = await bob.subscribe(channel);
    assert.equal((await a.next('join')).info.user, bob.user);
    if (sdk.place === inNode) assert.ok([a, b].every(sub => sub.inner._id > 0 === (sdk.encoding === 'json')));
    // How many windows of a batch there are depends on how fast the machine is.
    const upTo = async (sub, last) => {
      const got = [];
      do got.push(await sub.number());
      while (got.at(-1) !== last);
      return got;
    };
    await api('batch', { commands: [1, 2, 3].map(n => ({ publish: { channel, data: { n } } })) });
    for (const sub of [a, b]) assert.ok(await upTo(sub, 3));
    b.inner.unsubscribe();
    assert.equal((await a.next('leave')).info.user, bob.user);

    // A request with the first publication may take longer than one with the last. Here nothing is replaced by
    // what comes later, so the last one arrives all the same.
    const calm = unique('calm:');
    const subs = await Promise.all([alice, bob].map(c => c.subscribe(calm)));
    // From here to a browser, each call may take longer than the pause in which a publication is replaced.
    const may = sdk.place.here ? [4, 9] : [4, 5, 6, 7, 8, 9];
    for (let n = 4; n <= 9; n++) subs[0].inner.publish(sdk.encode({ n })).catch(() => {});
    for (const sub of subs) assert.ok((await upTo(sub, 9)).every(n => may.includes(n)));
  },

  async 'tags filter'(sdk) {
    const channel = unique('tagged:');
    const c = await sdk.connect();
    const tagsFilter = {
      op: 'and',
      nodes: [
        { key: 'ticker', cmp: 'in', vals: ['BTC', 'ETH'] },
        {
          op: 'or',
          nodes: [
            { key: 'price', cmp: 'gte', val: '100' },
            { key: 'urgent', cmp: 'ex' },
          ],
        },
      ],
    };
    const sub = await c.subscribe(channel, { tagsFilter });
    for (const [n, tags] of [
      { ticker: 'BTC', price: '99.5' }, // 0: too cheap
      { ticker: 'BTC', price: '100' }, // 1
      { ticker: 'SOL', price: '500' }, // 2: other ticker
      { ticker: 'ETH', urgent: 'yes' }, // 3
      {}, // 4: no tags
      { ticker: 'ETH', price: '1000', extra: 'x' }, // 5
    ].entries())
      await api('publish', { channel, data: { n }, tags });
    for (const n of [1, 3, 5]) assert.equal(await sub.number(), n);
    assert.equal((await c.subscription(unique('room:'), { tagsFilter }).next('unsubscribed')).code, 107);
  },

  async 'private channel'(sdk) {
    const channel = unique('$room:');
    const c = await sdk.connect();
    const signed = user => async () => token({ sub: user, channel, info: { seat: 4 }, data: { hello: 1 } });
    const sub = c.subscription(channel, { getToken: signed(c.user) });
    assert.deepEqual(sdk.decode((await sub.next('subscribed')).data), { hello: 1 });
    await sub.inner.publish(sdk.encode({ n: 1 }));
    assert.deepEqual(sdk.decode((await sub.next('publication')).info.chanInfo), { seat: 4 });

    assert.equal((await c.subscription(unique('$room:')).next('unsubscribed')).code, 103);
    const invalid = c.subscription(unique('$room:'), { token: 'eyJhbGciOiJub25lIn0.e30.' });
    assert.equal((await invalid.next('unsubscribed')).code, 103);
    c.subscription(unique('$room:'), { getToken: signed('someone else') });
    assert.equal((await c.next('disconnected')).code, 3500);
  },

  async 'user-limited channel'(sdk) {
    const c = await sdk.connect();
    const own = await c.subscribe(`${unique('user:dm')}#someone,${c.user}`);
    await publish(own.channel, 5);
    assert.equal(await own.number(), 5);
    assert.equal((await c.subscription(`${unique('user:dm')}#someone,${c.user}x`).next('unsubscribed')).code, 103);
  },

  async 'channel errors'(sdk) {
    const c = await sdk.connect();
    const refusal = async channel => pick(await c.subscription(channel).next('unsubscribed'), 'code', 'reason');
    assert.deepEqual(await refusal('nowhere:x'), { code: 102, reason: 'unknown channel' });
    assert.deepEqual(await refusal('closed:x'), { code: 103, reason: 'permission denied' });
    assert.equal((await refusal('room:' + 'x'.repeat(251))).code, 107);
    assert.equal((await refusal('room:ü')).code, 107);
    const { inner } = c;
    await rejectsWith(inner.publish('nowhere:x', sdk.encode({})), 102);
    await rejectsWith(inner.publish('room:not-subscribed', sdk.encode({})), 103);
    await rejectsWith(inner.presence('stream:x'), 108);
    await rejectsWith(inner.history('tagged:x', {}), 108);
    await rejectsWith(inner.rpc('anything', sdk.encode({})), 108);
    c.none('disconnected');
  },

  async 'terminal disconnect'(sdk) {
    const c = await sdk.connect();
    await api('disconnect', { user: c.user });
    assert.deepEqual(await c.next('disconnected'), { code: 3503, reason: 'force disconnect' });
    assert.equal(await c.read('state'), 'disconnected');
    await c.open();
    await api('disconnect', { user: c.user, disconnect: { code: 4777, reason: 'go away' } });
    assert.deepEqual(await c.next('disconnected'), { code: 4777, reason: 'go away' });
  },

  // A token refresh tells that some pings have passed: without pongs the server
  // would have closed by then.
  async 'pings keep a connection'(sdk) {
    const asked = counter();
    const c = await sdk.connect(
      {
        maxServerPingDelay: patience,
        getToken: async () => {
          asked.hit();
          return token({ sub: 'x', exp: inSeconds(6) });
        },
      },
      await sdk.url('brisk'),
    );
    await asked.reach(2);
    c.none('connecting');
  },

  // All traffic stops without anything being closed.
  async 'silent network is noticed by both sides'(sdk) {
    const channel = unique('room:');
    const proxy = await sdk.proxy('brisk');
    const direct = await sdk.url('brisk');
    const watcher = await sdk.connect({}, direct);
    const watch = await watcher.subscribe(channel, { joinLeave: true });
    await watch.next('join');
    // Emulation requests take another way: an HTTP client would keep silent connections for them, and
    // open the next stream over one.
    const c = sdk.client({ maxServerPingDelay: 500, emulationEndpoint: `${direct}/emulation` }, proxy.url);
    const quiet = c.subscription(channel);
    const { client } = await c.open();
    await quiet.next('subscribed');
    await watch.next('join');
    await proxy.mute();
    assert.equal((await c.next('connecting')).code, 2);
    assert.equal((await watch.next('leave')).info.client, client);
    await c.next('connected');
    await quiet.next('subscribed');
    await proxy.down(); // or the silenced socket would wait for the answer to its close
  },

  async 'RPC and messages against a library server'(sdk) {
    const c = sdk.client({ data: sdk.encode({ from: 'connect' }) }, await sdk.url('library'));
    assert.deepEqual(sdk.decode((await c.open()).data), { from: 'connect' });
    const rpc = (method, data) => c.inner.rpc(method, sdk.encode(data));
    assert.deepEqual(sdk.decode((await rpc('upper', { text: 'hello' })).data), { text: 'HELLO' });
    await rpc('push', { n: 1 });
    assert.deepEqual(sdk.decode((await c.next('message')).data), { n: 1 });
    await c.inner.send(sdk.encode({ n: 2 }));
    assert.deepEqual(sdk.decode((await c.next('message')).data), { n: 2 });
    await rejectsWith(rpc('fail', {}), 1000);
    await rejectsWith(rpc('unknown', {}), 104);
    rpc('bye', {}).catch(() => {}); // the connection ends instead
    assert.deepEqual(await c.next('disconnected'), { code: 4501, reason: 'bye' });
  },
};

// kept are the scenarios that need no history.
const kept = [
  'connect with a token',
  'refused tokens',
  'presence',
  'join and leave',
  'many subscriptions in one go',
  'large and odd messages',
  'numbers instead of names, batches of the newest, debounced publishing',
  'connection token refresh',
  'subscription token refresh',
  'server-side subscriptions of the API',
  'tags filter',
  'private channel',
  'user-limited channel',
  'terminal disconnect',
  'pings keep a connection',
  'silent network is noticed by both sides',
];

// applies tells which scenarios there are for a transport.
function applies(name, transport) {
  if (rig.history === 'false') return kept.includes(name);
  return !(name.endsWith('library server') && transport.startsWith('sockjs')); // only the server has SockJS
}

// suite registers the scenarios for ways, each a transport and an encoding. place returns where clients
// are made: inNode, or what has its methods. A scenario that loses its place has another try in a new one, three times at most.
export function suite(ways, place, { maps = false, sdk: of = 'centrifuge-js' } = {}) {
  const run = async (way, scenario, tries = 4) => {
    const at = await place();
    const sdk = await SDK.open(...way, at);
    try {
      await Promise.race([scenario(sdk), at.lost]);
    } catch (error) {
      if (error.name !== 'LostError' || tries === 1) throw error;
      await run(way, scenario, tries - 1);
    } finally {
      sdk.close();
    }
  };
  describe(of, { concurrency: 24 }, () => {
    for (const way of ways) {
      for (const [name, scenario] of Object.entries(scenarios)) {
        if (applies(name, way[0])) test(`${way.join(', ')}: ${name}`, () => run(way, scenario));
      }
      if (!maps || rig.history === 'false') continue;
      for (const [name, scenario] of Object.entries(mapScenarios)) test(`${way.join(', ')}: ${name}`, () => run(way, scenario));
    }
  });
  // WebSocket clients share the way to the nodes with the API, so nobody knows on which node they are.
  test(`${of}: a node is killed`, { skip: rig.apis.length === 1 || rig.history === 'false' }, async () =>
    killNode(
      ways.filter(([transport]) => transport !== 'websocket'),
      await place(),
    ),
  );
}

// killNode kills the first node of two. Of the two clients of each way one loses it and comes back on the
// other; the other one notices nothing. Nobody misses anything.
async function killNode(ways, place) {
  const channel = unique('stream:');
  const sdks = [],
    clients = [];
  try {
    for (const way of ways) {
      const sdk = await SDK.open(...way, place);
      sdks.push(sdk);
      for (let i = 0; i < 2; i++) {
        // one after the other, so that they are on different nodes
        const c = await sdk.connect();
        clients.push({ sdk, c, sub: await c.subscribe(channel) });
      }
    }
    const publisher = sdks[0].publisher(channel, rig.apis[1]);
    await publisher.more(10);
    await control('/nodes/0/kill');
    sdks.forEach(sdk => sdk.poke());
    await publisher.more(10);
    let n = await publisher.finish();
    for (const { sub } of clients) await exactly(sub, n);
    for (const sdk of sdks) {
      const [lost, ...more] = clients.filter(({ sdk: of, c }) => of === sdk && c.count('connecting') > 0);
      assert.ok(lost && more.length === 0, `${sdk.transport}: not one of two clients was on the node`);
      assert.deepEqual(recovery(await lost.sub.next('subscribed')), recovered);
    }
    for (const { sdk, sub } of clients) {
      n++;
      await sub.inner.publish(sdk.encode({ n }));
      for (const other of clients) assert.equal(await other.sub.number(), n);
    }
  } finally {
    sdks.forEach(sdk => sdk.close());
  }
}
