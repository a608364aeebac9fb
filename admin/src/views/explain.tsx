import { useState } from 'preact/hooks';
import { call, type Connection, type FlightEvent } from '../api';
import { Badge, Empty, KeyLink, Loaded, Notice, Page, Panel, Search, Table, useLoad, type Tone } from '../components';
import { bytes, count, duration } from '../format';
import { go, link } from '../router';
import { EventTable } from './events';

interface Explained {
  findings: { level: string; text: string; key?: string; client?: string }[];
  connections: Record<string, Connection>;
  more?: boolean;
  events: FlightEvent[];
  incomplete?: string;
  top?: { offset?: number; epoch?: string };
  subscribe?: {
    decision: string;
    reason?: string;
    key?: string;
    token?: boolean;
    namespace?: string;
    checks: { text: string; holds?: boolean; key?: string; value?: string }[];
  };
}

const levels: Record<string, Tone> = { problem: 'bad', notice: 'warn', ok: 'good' },
  decisions: Record<string, Tone> = { allowed: 'good', refused: 'bad', backend: 'warn' };

// Explain answers why a user does not get messages.
export function Explain({ user, channel }: { user: string; channel: string }) {
  const [who, setWho] = useState(user),
    [where, setWhere] = useState(channel);
  return (
    <Page
      title={user ? `Why does ${user} not get messages?` : 'Explain'}
      lead="Connections, positions, permissions and what happened of late, looked at in one place."
    >
      <form
        class="bar"
        role="search"
        onSubmit={e => {
          e.preventDefault();
          if (who) go('explain', who, where.trim());
        }}
      >
        <Search label="User ID" value={who} onInput={setWho} />
        <input
          type="search"
          aria-label="Channel"
          placeholder="Channel; empty for all"
          value={where}
          onInput={e => setWhere(e.currentTarget.value)}
          autocomplete="off"
          spellcheck={false}
        />
        <button type="submit" class="primary" disabled={!who}>
          Explain
        </button>
      </form>
      {user ? (
        <Answer user={user} channel={channel} />
      ) : (
        <Panel>
          <Empty>Name a user, and the channel whose messages are missing.</Empty>
        </Panel>
      )}
    </Page>
  );
}

function Answer({ user, channel }: { user: string; channel: string }) {
  const found = useLoad(signal => call<Explained>('explain', { user, ...(channel && { channel }) }, signal), [user, channel]);
  return (
    <Loaded of={found}>
      {e => (
        <>
          {e.incomplete && <Notice tone="warn">{e.incomplete}</Notice>}
          <Panel
            title="Findings"
            tools={
              <button type="button" onClick={found.reload}>
                Look again
              </button>
            }
          >
            <Table
              caption="Findings"
              rows={e.findings}
              rowKey={(_, i) => String(i)}
              empty="Nothing was found."
              columns={[
                { name: 'Level', narrow: true, cell: f => <Badge tone={levels[f.level] ?? 'plain'}>{f.level}</Badge> },
                {
                  name: 'Finding',
                  wide: true,
                  cell: f => (
                    <>
                      {f.text}
                      {f.client && (
                        <>
                          {' '}
                          <span class="mono faint">{f.client}</span>
                        </>
                      )}
                    </>
                  ),
                },
                { name: 'Key', cell: f => <KeyLink of={f.key} /> },
              ]}
            />
          </Panel>
          {e.subscribe && (
            <Panel
              title={`If the user subscribes to ${channel}`}
              tools={<Badge tone={decisions[e.subscribe.decision] ?? 'plain'}>{e.subscribe.decision}</Badge>}
            >
              <p class="hint">
                {e.subscribe.reason && <>{e.subscribe.reason}. </>}
                {e.subscribe.key && (
                  <>
                    Allowed by <KeyLink of={e.subscribe.key} />.{' '}
                  </>
                )}
                {e.subscribe.token && 'With a subscription token for the channel, a client may subscribe in any case. '}
                {e.top?.epoch && <>The stream is at offset {count(e.top.offset ?? 0)}.</>}
              </p>
              <Table
                caption="Checks"
                rows={e.subscribe.checks}
                rowKey={(_, i) => String(i)}
                empty="Nothing was checked."
                columns={[
                  { name: 'Step', number: true, narrow: true, cell: c => e.subscribe!.checks.indexOf(c) + 1 },
                  { name: 'Condition', wide: true, cell: c => c.text },
                  { name: 'Holds', narrow: true, cell: c => (c.holds ? <Badge tone="good">yes</Badge> : <Badge>no</Badge>) },
                  {
                    name: 'Key',
                    cell: c => (
                      <>
                        <KeyLink of={c.key} />
                        {c.value !== undefined && c.key && (
                          <>
                            {' '}
                            = <code>{c.value}</code>
                          </>
                        )}
                      </>
                    ),
                  },
                ]}
              />
            </Panel>
          )}
          <Panel
            title="Connections"
            tools={
              <a class="button" href={link('users', user, 'is')}>
                Show the user
              </a>
            }
          >
            <Table
              caption="Connections"
              rows={Object.entries(e.connections)}
              rowKey={([id]) => id}
              empty="The user has no connection now."
              columns={[
                { name: 'Connection', cell: ([id]) => <span class="mono">{id}</span>, wide: true },
                { name: 'Transport', cell: ([, c]) => c.transport },
                { name: 'Connected for', cell: ([, c]) => duration((Date.now() - c.connected_at_ms) / 1000) },
                { name: 'Queue', number: true, cell: ([, c]) => (c.queue ? bytes(c.queue) : 'empty') },
                ...(channel
                  ? [
                      {
                        name: `Position in ${channel}`,
                        cell: ([, c]: [string, Connection]) => {
                          const s = c.state?.channels?.[channel];
                          return s ? s.offset !== undefined ? `offset ${s.offset}` : 'subscribed' : <Badge tone="warn">not subscribed</Badge>;
                        },
                      },
                    ]
                  : [{ name: 'Subscriptions', number: true, cell: ([, c]: [string, Connection]) => count(Object.keys(c.state?.channels ?? {}).length) }]),
              ]}
            />
          </Panel>
          <Panel title="What happened">
            <EventTable events={e.events} />
          </Panel>
        </>
      )}
    </Loaded>
  );
}
