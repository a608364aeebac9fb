// What a backend does with types that openapi-typescript makes of the document.
import assert from 'node:assert/strict';
import createClient from 'openapi-fetch';
import type { components, paths } from './api.js';

const rig = JSON.parse(process.env.E2E_RIG!);
const gyro = createClient<paths>({ baseUrl: rig.http, headers: { 'X-API-Key': rig.apiKey } });

const { data } = await gyro.POST('/api/publish', { body: { channel: 'room:generators-ts', data: { n: 1 }, tags: { a: 'b' } } });
const published: components['schemas']['PublishResult'] | undefined = data?.result;
assert.ok(published?.offset === 1 && data?.error === undefined);

const history = await gyro.POST('/api/history', { body: { channel: 'room:generators-ts', limit: -1 } });
assert.deepEqual(
  history.data?.result?.publications.map(p => [p.offset, p.data, p.tags]),
  [[1, { n: 1 }, { a: 'b' }]],
);

const refused = await gyro.POST('/api/publish', {
  params: { header: { 'X-Centrifugo-Error-Mode': 'transport' } },
  body: { channel: 'nowhere:x', data: {} },
});
assert.equal(refused.response.status, 404);

const { data: batch } = await gyro.POST('/api/batch', {
  body: { commands: [{ presence_stats: { channel: 'room:x' } }, { publish: { channel: 'nowhere:x' } }] },
});
assert.deepEqual([batch?.replies?.[0]?.presence_stats?.num_clients, batch?.replies?.[1]?.error?.code], [0, 102]);

// @ts-expect-error: a channel is required
await gyro.POST('/api/presence', { body: {} });
// @ts-expect-error: it is a number
const wrong: string = history.data!.result!.offset;
assert.equal(typeof wrong, 'number');
console.log('openapi-typescript: ok');
