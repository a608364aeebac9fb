import { useState } from 'preact/hooks';
import { call, post, type About, type ClientInfo } from '../api';
import { Badge, Field, Json, Loaded, Notice, Page, Panel, say, Table, Tabs, useAction, useLoad, type Tab } from '../components';
import { count } from '../format';
import { go, link } from '../router';
import { Events } from './events';
import { History, MapChanges, MapState } from './history';
import { Settings, type Item } from './config';
import { MapTail, Tail } from './tail';

interface Described {
  namespace: string;
  type: string;
  maps: boolean;
  options: Item[];
}

export function Channel({ name, tab, about }: { name: string; tab: string; about: About }) {
  const described = useLoad(() => post<Described>('channel', { channel: name }), [name]);
  const stats = useLoad(
    () => call<{ channels: Record<string, { num_clients?: number }> }>('channels', { pattern: name.replace(/[\\*?[\]{}]/g, '\\$&') }),
    [name],
    5000,
  );
  const clients = stats.value?.channels[name]?.num_clients ?? 0;
  return (
    <Page
      title={<span class="mono">{name}</span>}
      lead={
        described.value && (
          <>
            <Badge tone="info">{described.value.type.replace('_', ' ')}</Badge>{' '}
            {described.value.namespace ? (
              <>
                namespace <b>{described.value.namespace}</b>
              </>
            ) : (
              'no namespace'
            )}{' '}
            · {clients === 1 ? 'one subscriber' : `${count(clients)} subscribers`}
          </>
        )
      }
      tools={
        <>
          {about.endpoints.includes('trace') && (
            <a class="button" href={link('trace', name, 'channel')}>
              Trace
            </a>
          )}
          <a class="button" href={link('channels')}>
            All channels
          </a>
        </>
      }
    >
      <Loaded of={described}>{d => <Tabs label="Channel" active={tab} onChange={id => go('channel', name, id)} tabs={tabsOf(name, d, about)} />}</Loaded>
    </Page>
  );
}

function tabsOf(name: string, d: Described, about: About): Tab[] {
  // What is off is not asked for: the refusal would count as one of the application's.
  const value = (key: string) => d.options.find(i => i.key === key)?.value;
  const presence = {
    id: 'presence',
    name: 'Presence',
    body: () =>
      value('presence') ? (
        <Presence channel={name} />
      ) : (
        <Notice>
          The namespace keeps no presence: its option <code>presence</code> is off.
        </Notice>
      ),
  };
  const rest: Tab[] = [
    ...(about.methods.includes('connections') ? [{ id: 'clients', name: 'Clients', body: () => <Clients channel={name} /> }] : []),
    ...(about.methods.includes('flight') ? [{ id: 'events', name: 'Events', body: () => <Events id={name} kind="channel" part /> }] : []),
    {
      id: 'options',
      name: 'Options',
      body: () => (
        <>
          <Proxies options={d.options} />
          <Settings items={d.options} caption="Options of the channel" />
        </>
      ),
    },
    { id: 'actions', name: 'Actions', body: () => <Actions channel={name} maps={d.maps} /> },
  ];
  if (d.type === 'shared_poll') return [{ id: 'publish', name: 'Publish', body: () => <PublishKey channel={name} method="shared_poll_publish" /> }, ...rest];
  if (d.maps) {
    return [
      {
        id: 'live',
        name: 'Live',
        body: () => (
          <>
            <MapTail channel={name} />
            <PublishKey channel={name} method="map_publish" />
          </>
        ),
      },
      { id: 'state', name: 'State', body: () => <MapState channel={name} /> },
      { id: 'changes', name: 'Changes', body: () => <MapChanges channel={name} /> },
      presence,
      ...rest,
    ];
  }
  return [
    {
      id: 'live',
      name: 'Live',
      body: () => (
        <>
          <Tail channel={name} />
          <Publish channel={name} />
        </>
      ),
    },
    {
      id: 'history',
      name: 'History',
      body: () =>
        value('history_size') ? (
          <History channel={name} />
        ) : (
          <Notice>
            The namespace keeps no history: set its options <code>history_size</code> and <code>history_ttl</code>.
          </Notice>
        ),
    },
    presence,
    ...rest,
  ];
}

// Proxies tells which questions about the channel the backend is asked.
function Proxies({ options }: { options: Item[] }) {
  const value = (key: string) => options.find(i => i.key === key)?.value;
  const asked = options.flatMap(i => {
    const name = /^(?:(.*)\.)?(.*)_proxy_enabled$/.exec(i.key);
    return name && i.value === true
      ? [{ event: `${name[1] ? `${name[1]} ` : ''}${name[2]}`.replaceAll('_', ' '), proxy: value(i.key.replace(/_enabled$/, '_name')) }]
      : [];
  });
  return (
    <Panel title="Proxies">
      {asked.length === 0 ? (
        <p class="hint">The backend is asked nothing about this channel: its options alone decide.</p>
      ) : (
        <ul class="chips">
          {asked.map(a => (
            <li>
              {a.event} <Badge tone="info">{a.proxy ? String(a.proxy) : 'default'}</Badge>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function Presence({ channel }: { channel: string }) {
  const found = useLoad(
    async signal => Object.values((await call<{ presence: Record<string, ClientInfo> }>('presence', { channel }, signal)).presence),
    [channel],
    5000,
    rows => rows.length,
  );
  const [dialog, act] = useAction();
  return (
    <Panel
      title="Who is here"
      tools={
        <button type="button" onClick={found.reload}>
          Refresh
        </button>
      }
    >
      <Loaded of={found}>
        {rows => (
          <>
            <p class="hint">
              {count(rows.length)} connections of {count(new Set(rows.map(c => c.user)).size)} users. Operators who watch the channel are subscribers without
              presence.
            </p>
            <Table
              caption="Presence"
              rows={rows}
              rowKey={c => c.client}
              empty="Nobody is here."
              initial={{ column: 0, down: false }}
              columns={[
                { name: 'User', sort: c => c.user, cell: c => <UserLink user={c.user} /> },
                { name: 'Connection', sort: c => c.client, cell: c => <span class="mono faint">{c.client}</span> },
                { name: 'Info', cell: c => <Json value={c.conn_info} />, wide: true },
                { name: 'Channel info', cell: c => <Json value={c.chan_info} />, wide: true },
                {
                  name: 'Actions',
                  cell: c => (
                    <button
                      type="button"
                      class="small"
                      onClick={() =>
                        act({
                          title: 'Unsubscribe the connection',
                          verb: 'Unsubscribe',
                          body: (
                            <p>
                              Connection <code>{c.client}</code> of{' '}
                              {c.user ? (
                                <>
                                  user <b>{c.user}</b>
                                </>
                              ) : (
                                'an anonymous user'
                              )}{' '}
                              gets nothing more of <code>{channel}</code> until it subscribes again.
                            </p>
                          ),
                          run: async () => {
                            await call('unsubscribe', { channel, user: c.user, client: c.client });
                            found.reload();
                          },
                          done: 'Unsubscribed',
                        })
                      }
                    >
                      Unsubscribe
                    </button>
                  ),
                },
              ]}
            />
          </>
        )}
      </Loaded>
      {dialog}
    </Panel>
  );
}

export function UserLink({ user }: { user: string }) {
  return <a href={link('users', user, 'is')}>{user || <span class="faint">anonymous</span>}</a>;
}

function Clients({ channel }: { channel: string }) {
  const found = useLoad(
    signal =>
      call<{ connections: Record<string, { user: string; transport: string; queue: number; addr?: string }>; more?: boolean; incomplete?: string }>(
        'connections',
        { channel, limit: 1000 },
        signal,
      ),
    [channel],
    5000,
    of => 5 * Object.keys(of.connections).length,
  );
  return (
    <Panel
      title="Subscribed connections"
      tools={
        <button type="button" onClick={found.reload}>
          Refresh
        </button>
      }
    >
      <Loaded of={found}>
        {({ connections, more, incomplete }) => (
          <>
            {more && <Notice>There are more than are shown.</Notice>}
            {incomplete && <Notice tone="warn">{incomplete}</Notice>}
            <Table
              caption="Connections"
              rows={Object.entries(connections)}
              rowKey={([id]) => id}
              empty="No connection is subscribed."
              columns={[
                { name: 'User', sort: ([, c]) => c.user, cell: ([, c]) => <UserLink user={c.user} /> },
                { name: 'Connection', cell: ([id]) => <span class="mono faint">{id}</span>, wide: true },
                { name: 'Transport', sort: ([, c]) => c.transport, cell: ([, c]) => c.transport },
                { name: 'Address', cell: ([, c]) => c.addr ?? '–' },
                { name: 'Queued bytes', number: true, sort: ([, c]) => c.queue, cell: ([, c]) => count(c.queue) },
              ]}
            />
          </>
        )}
      </Loaded>
    </Panel>
  );
}

// parsed returns the value of a text, or its error.
function parsed(text: string): { value?: unknown; error?: string } {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { error: `This is not JSON: ${(error as Error).message}` };
  }
}

function Publish({ channel }: { channel: string }) {
  const [text, setText] = useState('{"text": "Hello"}'),
    [skip, setSkip] = useState(false),
    [result, setResult] = useState('');
  const [dialog, act] = useAction();
  const { value, error } = parsed(text);
  return (
    <Panel title="Publish">
      <form
        onSubmit={e => {
          e.preventDefault();
          if (!error)
            act({
              title: 'Publish',
              verb: 'Publish',
              danger: false,
              body: (
                <>
                  <p>
                    All subscribers of <code>{channel}</code> get this:
                  </p>
                  <pre tabIndex={0}>{JSON.stringify(value, null, 2)}</pre>
                </>
              ),
              run: async () => {
                const r = await call<{ offset?: number; epoch?: string }>('publish', { channel, data: value, ...(skip && { skip_history: true }) });
                setResult(r.offset ? `Published at offset ${r.offset}, epoch ${r.epoch}` : 'Published; it is in no history');
              },
              done: 'Published',
            });
        }}
      >
        <Field label="Data (JSON)" hint={error ?? undefined}>
          {props => <textarea {...props} rows={6} spellcheck={false} value={text} aria-invalid={!!error} onInput={e => setText(e.currentTarget.value)} />}
        </Field>
        <label class="check">
          <input type="checkbox" checked={skip} onChange={e => setSkip(e.currentTarget.checked)} /> Not into the history
        </label>
        <div class="buttons">
          <button class="primary" type="submit" disabled={!!error}>
            Publish…
          </button>
        </div>
        {result && <Notice tone="good">{result}</Notice>}
      </form>
      {dialog}
    </Panel>
  );
}

function PublishKey({ channel, method }: { channel: string; method: 'map_publish' | 'shared_poll_publish' }) {
  const [key, setKey] = useState(''),
    [text, setText] = useState('{"value": 1}'),
    [version, setVersion] = useState('1'),
    [result, setResult] = useState<unknown>();
  const [dialog, act] = useAction();
  const { value, error } = parsed(text),
    polls = method === 'shared_poll_publish';
  return (
    <Panel title={polls ? 'Publish the value of a key' : 'Set a key'}>
      <form
        onSubmit={e => {
          e.preventDefault();
          act({
            title: polls ? 'Publish the value' : 'Set the key',
            verb: polls ? 'Publish' : 'Set',
            danger: false,
            body: (
              <>
                <p>
                  Key <code>{key}</code> of <code>{channel}</code> becomes:
                </p>
                <pre tabIndex={0}>{JSON.stringify(value, null, 2)}</pre>
              </>
            ),
            run: async () => setResult(await call(method, { channel, key, data: value, ...(polls && { version: Number(version) }) })),
          });
        }}
      >
        <Field label="Key">
          {props => <input {...props} type="text" required value={key} onInput={e => setKey(e.currentTarget.value)} autocomplete="off" />}
        </Field>
        {polls && (
          <Field label="Version" hint="Only a newer version than the current one counts.">
            {props => <input {...props} type="number" min="1" value={version} onInput={e => setVersion(e.currentTarget.value)} />}
          </Field>
        )}
        <Field label="Value (JSON)" hint={error}>
          {props => <textarea {...props} rows={5} spellcheck={false} value={text} aria-invalid={!!error} onInput={e => setText(e.currentTarget.value)} />}
        </Field>
        <div class="buttons">
          <button class="primary" type="submit" disabled={!!error || !key}>
            {polls ? 'Publish…' : 'Set…'}
          </button>
        </div>
        {result !== undefined && (
          <Notice tone="good">
            <Json value={result} />
          </Notice>
        )}
      </form>
      {dialog}
    </Panel>
  );
}

function Actions({ channel, maps }: { channel: string; maps: boolean }) {
  const [user, setUser] = useState('');
  const [dialog, act] = useAction();
  const target = user ? (
    <>
      user <b>{user}</b>
    </>
  ) : (
    <b>all anonymous connections</b>
  );
  return (
    <>
      <Panel title="Subscriptions of a user">
        <Field label="User ID" hint="Empty for all anonymous connections.">
          {props => <input {...props} type="text" value={user} onInput={e => setUser(e.currentTarget.value)} autocomplete="off" />}
        </Field>
        <div class="buttons">
          <button
            type="button"
            onClick={() =>
              act({
                title: 'Subscribe the user',
                verb: 'Subscribe',
                danger: false,
                body: (
                  <p>
                    The present connections of {target} are subscribed to <code>{channel}</code> by the server.
                  </p>
                ),
                run: () => call('subscribe', { channel, user }),
                done: 'Subscribed',
              })
            }
          >
            Subscribe…
          </button>
          <button
            type="button"
            class="danger"
            onClick={() =>
              act({
                title: 'Unsubscribe the user',
                verb: 'Unsubscribe',
                body: (
                  <p>
                    All connections of {target} get nothing more of <code>{channel}</code> until they subscribe again.
                  </p>
                ),
                run: () => call('unsubscribe', { channel, user }),
                done: 'Unsubscribed',
              })
            }
          >
            Unsubscribe…
          </button>
        </div>
      </Panel>
      <Panel title={maps ? 'All keys' : 'History'}>
        <p class="hint">
          {maps
            ? 'Removes all keys and the stream of changes. Subscribers begin anew.'
            : 'Removes all publications of the history. Subscribers who come back cannot recover what they missed.'}
        </p>
        <div class="buttons">
          <button
            type="button"
            class="danger"
            onClick={() =>
              act({
                title: maps ? 'Clear the map' : 'Remove the history',
                verb: maps ? 'Clear' : 'Remove',
                type: channel,
                body: <p>This cannot be undone.</p>,
                run: () => call(maps ? 'map_clear' : 'history_remove', { channel }),
                done: maps ? 'Cleared' : 'Removed',
              })
            }
          >
            {maps ? 'Clear the map…' : 'Remove the history…'}
          </button>
        </div>
      </Panel>
      <p>
        <button
          type="button"
          onClick={() => {
            navigator.clipboard?.writeText(channel);
            say('Copied');
          }}
        >
          Copy the name
        </button>
      </p>
      {dialog}
    </>
  );
}
