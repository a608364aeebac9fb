import { useState } from 'preact/hooks';
import { Badge, Empty, Notice, Page, Panel, Search, type Tone } from '../components';
import { count } from '../format';
import { go } from '../router';
import { Lines, useFollow } from './tail';

interface Tapped {
  time: string;
  event: string;
  type?: string;
  client?: string;
  user?: string;
  channel?: string;
  message?: unknown;
  protobuf?: string;
  size?: number;
  code?: number;
  reason?: string;
  dropped?: number;
}

const tones: Record<string, Tone> = {
  received: 'good',
  sent: 'info',
  delivered: 'info',
  published: 'info',
  disconnected: 'bad',
  dropped: 'warn',
  silent: 'warn',
};

// Trace shows the messages of a user or a channel on all nodes, while they are sent.
export function Trace({ id, kind }: { id: string; kind: string }) {
  const [by, setBy] = useState(kind || 'user'),
    [text, setText] = useState(id);
  const on = kind === 'user' || kind === 'channel';
  return (
    <Page title="Trace" lead="The messages from and to the clients of a user, or of a channel, on all nodes. Tokens are not shown.">
      <form
        class="bar"
        role="search"
        onSubmit={e => {
          e.preventDefault();
          go('trace', text.trim(), by);
        }}
      >
        <select aria-label="Trace a" value={by} onChange={e => setBy(e.currentTarget.value)}>
          <option value="user">User</option>
          <option value="channel">Channel</option>
        </select>
        <Search label="User ID or channel" value={text} onInput={setText} />
        <button type="submit" class="primary">
          Start
        </button>
        {on && (
          <button type="button" onClick={() => go('trace')}>
            Stop
          </button>
        )}
      </form>
      {on ? (
        <Tapping key={`${kind} ${id}`} id={id} kind={kind} />
      ) : (
        <Panel>
          <Empty>
            A trace lasts until it is stopped or this view is left, ten minutes at most. It costs the nodes something, so the log says who began it.
          </Empty>
        </Panel>
      )}
    </Page>
  );
}

function Tapping({ id, kind }: { id: string; kind: string }) {
  const [over, setOver] = useState('');
  const { lines, state, clear } = useFollow('trace', { type: kind, entity: id }, `${kind} ${id}`, !over, (e: Tapped, add) => {
    if (e.event === 'ended') setOver(e.reason ?? 'ended');
    const text = e.dropped
      ? `${count(e.dropped)} events are missing here: they came too fast`
      : [e.code, e.reason, e.channel, e.size && !e.message && `${count(e.size)} bytes`].filter(Boolean).join(' ');
    add(
      {
        kind: e.event,
        tone: tones[e.event] ?? 'plain',
        text: (
          <>
            {e.type && <span class="strong">{e.type} </span>}
            {text} {e.client && <span class="mono faint">{e.client.slice(0, 8)} </span>}
          </>
        ),
        ...(e.user && { user: e.user }),
        ...((e.message ?? e.protobuf) !== undefined && { value: e.message ?? e.protobuf }),
      },
      Date.parse(e.time),
    );
  });
  return (
    <Panel
      title={`${kind === 'user' ? 'User' : 'Channel'} ${id || 'anonymous'}`}
      tools={
        <>
          {over ? <Badge tone="warn">ended</Badge> : state === 'live' ? <Badge tone="good">live</Badge> : <Badge>connecting</Badge>}
          {over && (
            <button type="button" onClick={() => setOver('')}>
              Start again
            </button>
          )}
          <button type="button" onClick={clear}>
            Clear
          </button>
        </>
      }
    >
      {over ? <Notice>{over}</Notice> : state !== 'live' && state !== 'waiting' && <Notice tone="bad">{state}</Notice>}
      <Lines lines={lines} empty="Nothing yet." />
    </Panel>
  );
}
