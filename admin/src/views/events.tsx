import { useState } from 'preact/hooks';
import { call, operatorUser, type FlightEvent } from '../api';
import { Badge, KeyLink, Loaded, Notice, Page, Panel, Search, Table, useLoad, type Tone } from '../components';
import { bytes, clock, count, dateTime } from '../format';
import { go, link } from '../router';

const tones: Record<string, Tone> = {
  connected: 'good',
  recovered: 'good',
  working: 'good',
  subscribed: 'info',
  refused: 'bad',
  not_recovered: 'bad',
  lost: 'bad',
  failing: 'bad',
  slow: 'warn',
  disconnected: 'warn',
  new_epoch: 'warn',
};

// sources are how subscriptions came to be.
const sources: Record<number, string> = {
  1: 'connection token',
  2: 'connect proxy',
  3: 'subscription token',
  4: 'subscribe proxy',
  5: 'user-limited channel',
  6: 'namespace',
  7: 'client.insecure',
  8: 'connect command',
  9: 'personal channel',
  10: 'server API',
  13: 'subscribe stream',
};

// counted says what the number of an event counts.
function counted(e: FlightEvent): string {
  switch (e.kind) {
    case 'subscribed':
      return `by ${sources[e.count!] ?? `source ${e.count}`}`;
    case 'recovered':
      return `${count(e.count!)} publications`;
    case 'slow':
      return `${bytes(e.count!)} wait`;
  }
  return `(${count(e.count!)})`;
}

interface Found {
  events: FlightEvent[];
  more?: boolean;
  complete_since_ms?: number;
  incomplete?: string;
}

// Events shows what the flight recorders remember of a user, a client or a channel; as a part of another view
// without a form.
export function Events({ kind, id, part }: { kind: string; id: string; part?: boolean }) {
  const [by, setBy] = useState(kind || 'user'),
    [text, setText] = useState(id),
    [own, setOwn] = useState(id === operatorUser);
  const filter = id ? { [kind || 'user']: id } : {};
  const found = useLoad(signal => call<Found>('flight', { ...filter, nodes: !part, limit: 200 }, signal), [kind, id], 3000);
  const table = (
    <Loaded of={found}>
      {({ events: found, more, complete_since_ms: since, incomplete }) => {
        const events = own ? found : found.filter(e => e.user !== operatorUser),
          left = found.length - events.length;
        return (
          <>
            {incomplete && <Notice tone="warn">{incomplete}</Notice>}
            <p class="hint">
              The newest come first{more && `; only the latest ${count(found.length)} are looked at`}.
              {since ? ` Nothing is forgotten since ${dateTime(since)}.` : ''}
            </p>
            {(left > 0 || own) && (
              <label class="check">
                <input type="checkbox" checked={own} onChange={e => setOwn(e.currentTarget.checked)} /> Also what operators do in this interface
                {left > 0 && ` (${count(left)})`}
              </label>
            )}
            <EventTable events={events} most={part ? 20 : 100} />
          </>
        );
      }}
    </Loaded>
  );
  if (part)
    return (
      <Panel
        title="Flight recorder"
        tools={
          <button type="button" onClick={found.reload}>
            Refresh
          </button>
        }
      >
        {table}
      </Panel>
    );
  return (
    <Page
      title="Flight recorder"
      lead="What happened of late to connections and channels, on all nodes."
      tools={
        <button type="button" onClick={found.reload}>
          Refresh
        </button>
      }
    >
      <form
        class="bar"
        role="search"
        onSubmit={e => {
          e.preventDefault();
          go('events', text.trim(), text.trim() && by);
        }}
      >
        <select aria-label="Search by" value={by} onChange={e => setBy(e.currentTarget.value)}>
          <option value="user">User</option>
          <option value="client">Connection</option>
          <option value="channel">Channel</option>
        </select>
        <Search label="Whose events" placeholder="ID or name; empty for all" value={text} onInput={setText} />
        <button type="submit" class="primary">
          Show
        </button>
      </form>
      <Panel>{table}</Panel>
    </Page>
  );
}

// EventTable shows events, the newest first.
export function EventTable({ events, most = 50 }: { events: FlightEvent[]; most?: number }) {
  return (
    <Table
      caption="Events"
      rows={events.toReversed()}
      rowKey={(e, i) => `${e.time_ms} ${i}`}
      most={most}
      empty="Nothing is remembered."
      columns={[
        {
          name: 'Time',
          cell: e => (
            <time class="mono faint" title={dateTime(e.time_ms)}>
              {clock(e.time_ms)}
            </time>
          ),
        },
        { name: 'Event', cell: e => <Badge tone={tones[e.kind] ?? 'plain'}>{e.kind.replace('_', ' ')}</Badge> },
        {
          name: 'Who',
          cell: e => (
            <>
              {e.user && <a href={link('users', e.user, 'is')}>{e.user}</a>} {e.user === operatorUser && <Badge>operator</Badge>}{' '}
              {e.client && (
                <a class="mono faint" href={link('events', e.client, 'client')} title={e.client}>
                  {e.client.slice(0, 8)}
                </a>
              )}{' '}
              {e.addr && <span class="faint">{e.addr}</span>}
            </>
          ),
        },
        {
          name: 'Channel',
          cell: e =>
            e.channel ? (
              <a class="mono" href={link('channel', e.channel)}>
                {e.channel}
              </a>
            ) : (
              ''
            ),
        },
        {
          name: 'What',
          wide: true,
          cell: e => (
            <>
              {e.what} {e.code ? <Badge>{e.code}</Badge> : ''} {e.reason} {e.count ? <span class="faint">{counted(e)}</span> : ''}
              {e.key && (
                <>
                  {' '}
                  <KeyLink of={e.key} />
                </>
              )}
            </>
          ),
        },
      ]}
    />
  );
}
