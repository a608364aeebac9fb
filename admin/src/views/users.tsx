import { useState } from 'preact/hooks';
import { call, get, type About, type Connection, type Listed, type Listing } from '../api';
import { Badge, Empty, Json, Loaded, Notice, Page, Panel, Part, Search, Table, Tabs, useAction, useLoad } from '../components';
import { bytes, count, dateTime, duration, millis } from '../format';
import { live } from '../live';
import { go, link } from '../router';
import { Events } from './events';

interface Found {
  connections: Record<string, Connection>;
  more?: boolean;
  incomplete?: string;
}

// Users shows the connections of a user, and what can be done about them. open tells whether a user is chosen: the ID
// of anonymous users is empty.
export function Users({ user, open, about }: { user: string; open: boolean; about: About }) {
  const [text, setText] = useState(user);
  const chosen = open || user !== '';
  return (
    <Page
      title={chosen ? user || 'Anonymous users' : 'Users'}
      lead={chosen ? 'Connections on all nodes, and what happened to them.' : 'Who is connected. A user is found by the ID in the token.'}
      tools={
        chosen && (
          <>
            {about.methods.includes('explain') && user && (
              <a class="button" href={link('explain', user)}>
                Explain
              </a>
            )}
            {about.endpoints.includes('trace') && (
              <a class="button" href={link('trace', user, 'user')}>
                Trace
              </a>
            )}
          </>
        )
      }
    >
      <form
        class="bar"
        role="search"
        onSubmit={e => {
          e.preventDefault();
          go('users', text, 'is');
        }}
      >
        <Search label="User ID" placeholder="User ID; empty for anonymous users" value={text} onInput={setText} />
        <button type="submit" class="primary">
          Show
        </button>
      </form>
      {chosen ? <User key={user} user={user} about={about} /> : about.endpoints.includes('clients') && <Connected />}
    </Page>
  );
}

// Person is a user in the list of connections.
interface Person {
  user: string;
  connections: Listed[];
}

function people(connections: Listed[]): Person[] {
  const all = new Map<string, Listed[]>();
  for (const c of connections) all.set(c.user, [...(all.get(c.user) ?? []), c]);
  return [...all].map(([user, connections]) => ({ user, connections }));
}

// Connected lists the users and connections of all nodes: all of them if they are few, otherwise a sample.
function Connected() {
  const found = useLoad(() => get<Listing>('clients'), [], 5000);
  const [text, setText] = useState(''),
    [tab, setTab] = useState('users');
  const fits = (c: Listed) =>
    `${c.user} ${c.client} ${c.transport} ${c.addr ?? ''} ${c.app_name ?? ''} ${nodeText(c.node)}`.toLowerCase().includes(text.toLowerCase());
  return (
    <Loaded of={found}>
      {({ clients, more, incomplete, connections }) => {
        const shown = connections.filter(fits),
          empty = text ? 'No connection in the list is like this.' : 'Nobody is connected.';
        return (
          <>
            {incomplete && <Notice tone="warn">{incomplete}</Notice>}
            <div class="bar">
              <Search label="Filter the list" placeholder="Part of a user, connection, address or node" value={text} onInput={setText} />
              <span class="faint">
                {more ? `a sample: ${count(connections.length)} of ${count(clients)} connections` : `${count(connections.length)} connections`}
              </span>
            </div>
            <Tabs
              label="Who is connected"
              active={tab}
              onChange={setTab}
              tabs={[
                { id: 'users', name: 'By user', body: () => <ByUser of={people(shown)} empty={empty} more={!!more} /> },
                { id: 'connections', name: 'By connection', body: () => <ByConnection of={shown} empty={empty} /> },
              ]}
            />
          </>
        );
      }}
    </Loaded>
  );
}

function UserLink({ of }: { of: Listed }) {
  return (
    <>
      <a href={link('users', of.user, 'is')}>{of.user || 'anonymous'}</a> {of.operator && <Badge title="This interface watches a channel">operator</Badge>}
    </>
  );
}

const nodeText = (uid: string) => live().nodes.find(n => n.uid === uid)?.name ?? uid;
const since = (of: Listed) => <span title={dateTime(of.connected_at_ms)}>{duration((Date.now() - of.connected_at_ms) / 1000)}</span>;

function ByUser({ of, empty, more }: { of: Person[]; empty: string; more: boolean }) {
  const first = (p: Person) => p.connections[0]!; // the newest
  return (
    <Panel>
      <Table
        caption="Users"
        rows={of}
        rowKey={p => p.user}
        most={50}
        empty={empty}
        columns={[
          { name: 'User', sort: p => p.user, wide: true, cell: p => <UserLink of={first(p)} /> },
          { name: more ? 'Connections in the sample' : 'Connections', number: true, sort: p => p.connections.length, cell: p => count(p.connections.length) },
          { name: 'Latest for', number: true, sort: p => -first(p).connected_at_ms, cell: p => since(first(p)) },
          { name: 'By', cell: p => [...new Set(p.connections.map(c => c.transport))].join(', ') },
          { name: 'Nodes', cell: p => [...new Set(p.connections.map(c => nodeText(c.node)))].join(', ') },
        ]}
      />
    </Panel>
  );
}

function ByConnection({ of, empty }: { of: Listed[]; empty: string }) {
  return (
    <Panel>
      <Table
        caption="Connections"
        rows={of}
        rowKey={c => c.client}
        most={50}
        empty={empty}
        columns={[
          {
            name: 'Connection',
            cell: c => (
              <a class="mono" href={link('events', c.client, 'client')} title={c.client}>
                {c.client.slice(0, 8)}
              </a>
            ),
          },
          { name: 'User', sort: c => c.user, wide: true, cell: c => <UserLink of={c} /> },
          {
            name: 'Transport',
            sort: c => c.transport,
            cell: c => (
              <>
                {c.transport} <Badge>{c.protocol}</Badge>
              </>
            ),
          },
          { name: 'Connected for', number: true, sort: c => -c.connected_at_ms, cell: since },
          { name: 'Subscriptions', number: true, sort: c => c.subscriptions, cell: c => count(c.subscriptions) },
          { name: 'Address', sort: c => c.addr ?? '', cell: c => <span class="whole">{c.addr ?? '–'}</span> },
          { name: 'Node', sort: c => nodeText(c.node), cell: c => <span class="whole">{nodeText(c.node)}</span> },
          ...(of.some(c => c.queue)
            ? [{ name: 'Waits', number: true, sort: (c: Listed) => c.queue ?? 0, cell: (c: Listed) => (c.queue ? bytes(c.queue) : '–') }]
            : []),
        ]}
      />
    </Panel>
  );
}

function User({ user, about }: { user: string; about: About }) {
  const [dialog, act] = useAction();
  const [code, setCode] = useState<'again' | 'never'>('never');
  const who = user ? (
    <>
      user <b>{user}</b>
    </>
  ) : (
    <b>all anonymous users</b>
  );
  const lists = about.methods.includes('connections') && user !== '';
  return (
    <>
      {about.methods.includes('get_user_status') && user !== '' && <Status user={user} />}
      {lists ? (
        <Connections user={user} act={act} />
      ) : (
        <Panel title="Connections">
          <Empty>
            {user ? 'This server cannot list connections.' : 'The connections of anonymous users are listed by channel: open one, and its tab Clients.'}
          </Empty>
        </Panel>
      )}
      {about.methods.includes('flight') && user !== '' && <Events id={user} kind="user" part />}
      <Panel title="Disconnect">
        <fieldset>
          <legend class="hidden">What the clients do</legend>
          <label class="check">
            <input type="radio" name="code" checked={code === 'never'} onChange={() => setCode('never')} /> Clients stay away (3503)
          </label>
          <label class="check">
            <input type="radio" name="code" checked={code === 'again'} onChange={() => setCode('again')} /> Clients connect again (4000)
          </label>
        </fieldset>
        <div class="buttons">
          <button
            type="button"
            class="danger"
            onClick={() =>
              act({
                title: 'Disconnect',
                verb: 'Disconnect',
                body: (
                  <p>
                    All connections of {who} on all nodes are closed
                    {code === 'again' ? '; the clients connect again' : '; the clients do not connect again by themselves'}.
                  </p>
                ),
                run: () => call('disconnect', { user, ...(code === 'again' && { disconnect: { code: 4000, reason: 'disconnected by an operator' } }) }),
                done: 'Disconnected',
              })
            }
          >
            Disconnect…
          </button>
        </div>
      </Panel>
      {dialog}
    </>
  );
}

interface UserStatus {
  user: string;
  active?: number;
  online?: number;
  state?: string;
}

// Status shows when the user was there last.
function Status({ user }: { user: string }) {
  const found = useLoad(async signal => (await call<{ statuses: UserStatus[] }>('get_user_status', { users: [user] }, signal)).statuses[0], [user], 5000);
  const at = (seconds?: number) =>
    seconds ? <span title={dateTime(seconds * 1000)}>{duration(Date.now() / 1000 - seconds)} ago</span> : <span class="faint">not known</span>;
  if (found.error === 'not available') return null; // it is switched off
  return (
    <Panel title="Status">
      <Loaded of={found}>
        {s => (
          <dl class="facts">
            <div>
              <dt>Last connected</dt>
              <dd>{at(s?.online)}</dd>
            </div>
            <div>
              <dt>Last active</dt>
              <dd>{at(s?.active)}</dd>
            </div>
            <div>
              <dt>State</dt>
              <dd>{s?.state || <span class="faint">none</span>}</dd>
            </div>
          </dl>
        )}
      </Loaded>
    </Panel>
  );
}

// nodeName is what operators call a node, as far as it is known.
function nodeName(uid: string) {
  return live().nodes.find(n => n.uid === uid)?.name ?? <span class="mono faint">{uid}</span>;
}

function Connections({ user, act }: { user: string; act: ReturnType<typeof useAction>[1] }) {
  const found = useLoad(
    signal => call<Found>('connections', { user, limit: 1000 }, signal),
    [user],
    3000,
    of => 5 * Object.keys(of.connections).length,
  );
  const [text, setText] = useState('');
  const matching = ([id, c]: [string, Connection]) =>
    !text ||
    `${id} ${c.transport} ${c.addr ?? ''} ${c.app_name} ${c.node} ${live().nodes.find(n => n.uid === c.node)?.name ?? ''} ${Object.keys(c.state?.channels ?? {}).join(' ')}`
      .toLowerCase()
      .includes(text.toLowerCase());
  // What was searched comes first.
  const rank = (name: string) => (text && name.toLowerCase().includes(text.toLowerCase()) ? 0 : 1);
  const sooner = ([a]: [string, unknown], [b]: [string, unknown]) => rank(a) - rank(b) || (a < b ? -1 : 1);
  return (
    <Panel
      title="Connections"
      tools={
        <button type="button" onClick={found.reload}>
          Refresh
        </button>
      }
    >
      <Loaded of={found}>
        {({ connections, more, incomplete }) => (
          <>
            {more && <Notice>There are more connections or subscriptions than are shown.</Notice>}
            {incomplete && <Notice tone="warn">{incomplete}</Notice>}
            {Object.keys(connections).length === 0 && <Empty>The user has no connection now.</Empty>}
            {Object.keys(connections).length > 5 && (
              <div class="bar">
                <Search label="Search in the connections" placeholder="Part of an ID, address, node or channel" value={text} onInput={setText} />
                <span class="faint">{count(Object.keys(connections).length)} connections</span>
              </div>
            )}
            <Part
              of={Object.entries(connections)
                .filter(matching)
                .sort((a, b) => a[1].connected_at_ms - b[1].connected_at_ms || (a[0] < b[0] ? -1 : 1))}
              most={20}
            >
              {shown =>
                shown.map(([id, c]) => (
                  <article class="connection" key={id}>
                    <div class="panel-head">
                      <h3 class="mono">{id}</h3>
                      <button
                        type="button"
                        class="small"
                        onClick={() =>
                          act({
                            title: 'Disconnect the connection',
                            verb: 'Disconnect',
                            body: (
                              <p>
                                Connection <code>{id}</code> of user <b>{user}</b> is closed; the client does not connect again by itself.
                              </p>
                            ),
                            run: async () => {
                              await call('disconnect', { user, client: id });
                              found.reload();
                            },
                            done: 'Disconnected',
                          })
                        }
                      >
                        Disconnect…
                      </button>
                    </div>
                    <dl class="facts">
                      <div>
                        <dt>Transport</dt>
                        <dd>
                          {c.transport} <Badge>{c.protocol}</Badge>
                        </dd>
                      </div>
                      <div>
                        <dt>Connected</dt>
                        <dd title={dateTime(c.connected_at_ms)}>{duration((Date.now() - c.connected_at_ms) / 1000)} ago</dd>
                      </div>
                      <div>
                        <dt>Address</dt>
                        <dd>{c.addr ?? '–'}</dd>
                      </div>
                      <div>
                        <dt>Round trip of a ping</dt>
                        <dd>{c.ping_pong_latency_ms < 0 ? 'not measured yet' : millis(c.ping_pong_latency_ms)}</dd>
                      </div>
                      <div>
                        <dt>Queue</dt>
                        <dd>{c.queue > 0 ? <Badge tone="warn">{bytes(c.queue)} wait</Badge> : <Badge tone="good">empty</Badge>}</dd>
                      </div>
                      <div>
                        <dt>Software</dt>
                        <dd>
                          {c.app_name || 'unnamed'} {c.app_version}
                        </dd>
                      </div>
                      <div>
                        <dt>Node</dt>
                        <dd title={c.node}>{nodeName(c.node)}</dd>
                      </div>
                      {c.labels && (
                        <div>
                          <dt>Labels</dt>
                          <dd>
                            <Json value={c.labels} />
                          </dd>
                        </div>
                      )}
                      {c.state?.meta !== undefined && (
                        <div>
                          <dt>Meta</dt>
                          <dd>
                            <Json value={c.state.meta} />
                          </dd>
                        </div>
                      )}
                    </dl>
                    <h4>{count(Object.keys(c.state?.channels ?? {}).length)} subscriptions</h4>
                    <Part of={Object.entries(c.state?.channels ?? {}).sort(sooner)} most={50}>
                      {subscriptions => (
                        <ul class="chips">
                          {subscriptions.map(([name, s]) => (
                            <li>
                              <a class="mono" href={link('channel', name)}>
                                {name}
                              </a>
                              {s.offset !== undefined && <span class="faint"> at {s.offset}</span>}
                              {s.server_side && (
                                <>
                                  {' '}
                                  <Badge>server-side</Badge>
                                </>
                              )}
                              <button
                                type="button"
                                class="small"
                                aria-label={`Unsubscribe from ${name}`}
                                onClick={() =>
                                  act({
                                    title: 'Unsubscribe the connection',
                                    verb: 'Unsubscribe',
                                    body: (
                                      <p>
                                        Connection <code>{id}</code> gets nothing more of <code>{name}</code> until it subscribes again.
                                      </p>
                                    ),
                                    run: async () => {
                                      await call('unsubscribe', { channel: name, user, client: id });
                                      found.reload();
                                    },
                                    done: 'Unsubscribed',
                                  })
                                }
                              >
                                ×
                              </button>
                            </li>
                          ))}
                        </ul>
                      )}
                    </Part>
                  </article>
                ))
              }
            </Part>
          </>
        )}
      </Loaded>
    </Panel>
  );
}
