import { useEffect, useRef, useState } from 'preact/hooks';
import { Rejected, stream, type ClientInfo, type Publication } from '../api';
import { Badge, Empty, Json, Notice, Panel, Search, Table, type Tone } from '../components';
import { clock, count } from '../format';

const most = 200;

export interface Line {
  n: number;
  time: number;
  kind: string;
  tone: Tone;
  text?: preact.ComponentChildren;
  value?: unknown;
  user?: string;
  offset?: number;
}

interface Push {
  connect?: { subs?: Record<string, { offset?: number; epoch?: string }> };
  pub?: Publication;
  join?: { info: ClientInfo };
  leave?: { info: ClientInfo };
  unsubscribe?: { code: number; reason: string };
  disconnect?: { code: number; reason: string };
}

// useFollow reads a stream, again after a while if it breaks, and keeps its latest lines.
export function useFollow(
  name: string,
  body: unknown,
  key: string,
  on: boolean,
  read: (value: any, add: (line: Omit<Line, 'n' | 'time'>, time?: number) => void) => void,
) {
  const [lines, setLines] = useState<Line[]>([]),
    [state, setState] = useState<'waiting' | 'live' | string>('waiting');
  useEffect(() => {
    if (!on) return;
    const abort = new AbortController();
    let n = 0,
      timer = 0,
      batch: Line[] = [],
      scheduled = 0;
    // A fast channel costs one drawing per frame.
    const flush = () => {
      scheduled = 0;
      const more = batch;
      batch = [];
      setLines(was => [...more.reverse(), ...was].slice(0, most));
    };
    const add = (line: Omit<Line, 'n' | 'time'>, time = Date.now()) => {
      batch.push({ ...line, n: n++, time });
      if (batch.length > most) batch.shift();
      scheduled ||= window.setTimeout(flush, 50);
    };
    const run = async () => {
      try {
        await stream(name, body, abort.signal, value => {
          setState('live');
          read(value, add);
        });
        if (!abort.signal.aborted) setState('The stream has ended; it begins again soon.');
      } catch (error) {
        if (abort.signal.aborted || error instanceof Rejected) return;
        setState((error as Error).message);
        if (/^(Bad Request|Too Many)/.test((error as Error).message)) return;
      }
      if (!abort.signal.aborted) timer = window.setTimeout(run, 2000);
    };
    run();
    return () => {
      abort.abort();
      clearTimeout(timer);
      clearTimeout(scheduled);
    };
  }, [name, key, on]);
  return { lines, state, clear: () => setLines([]) };
}

// Tail shows the publications of a channel, live.
export function Tail({ channel }: { channel: string }) {
  const [on, setOn] = useState(true);
  const { lines, state, clear } = useFollow('tail', { channel }, channel, on, (push: Push, add) => {
    const who = (info: ClientInfo) => info.user || 'anonymous';
    if (push.connect) {
      const sub = push.connect.subs?.[channel];
      add({ kind: 'watching', tone: 'plain', text: sub?.epoch ? `from offset ${sub.offset ?? 0} on, epoch ${sub.epoch}` : 'from now on' });
    } else if (push.pub) {
      add({
        kind: 'publication',
        tone: 'info',
        value: push.pub.data ?? push.pub.b64data,
        ...(push.pub.offset && { offset: push.pub.offset }),
        user: push.pub.info ? who(push.pub.info) : 'backend',
      });
    } else if (push.join) add({ kind: 'join', tone: 'good', user: who(push.join.info), text: push.join.info.client });
    else if (push.leave) add({ kind: 'leave', tone: 'warn', user: who(push.leave.info), text: push.leave.info.client });
    else if (push.unsubscribe) add({ kind: 'unsubscribed', tone: 'bad', text: `${push.unsubscribe.code} ${push.unsubscribe.reason}` });
    else if (push.disconnect) add({ kind: 'disconnected', tone: 'bad', text: `${push.disconnect.code} ${push.disconnect.reason}` });
  });
  return (
    <Panel
      title="Live"
      tools={
        <>
          <Follows on={on} state={state} />
          <button type="button" onClick={() => setOn(!on)}>
            {on ? 'Pause' : 'Resume'}
          </button>
          <button type="button" onClick={clear}>
            Clear
          </button>
        </>
      }
    >
      <p class="hint">You are one of the subscribers now, without presence. The newest come first; {most} lines are kept.</p>
      {on && state !== 'live' && state !== 'waiting' && <Notice tone="bad">{state}</Notice>}
      <Lines lines={lines} empty="Nothing yet: what is published, joins and leaves appears here." />
    </Panel>
  );
}

interface Entry {
  key: string;
  data?: unknown;
  b64data?: string;
  offset?: number;
  removed?: boolean;
  info?: ClientInfo;
  changed?: number;
}

interface MapLine {
  state?: { entries: Entry[]; offset: number; epoch?: string; more?: boolean };
  live?: { offset?: number; epoch?: string };
  pub?: Entry;
  error?: { code: number; message: string };
  unsubscribe?: { code: number; reason: string };
  disconnect?: { code: number; reason: string };
}

const mostKeys = 2000;

// MapTail shows the keys of a map, and each change as it happens.
export function MapTail({ channel }: { channel: string }) {
  const [on, setOn] = useState(true),
    [text, setText] = useState('');
  const keys = useRef(new Map<string, Entry>()),
    rest = useRef(false);
  const { lines, state, clear } = useFollow('tail', { channel }, channel, on, (line: MapLine, add) => {
    const now = keys.current;
    if (line.state) {
      now.clear();
      rest.current = !!line.state.more;
      for (const e of line.state.entries) now.set(e.key, e);
      add({
        kind: 'state',
        tone: 'plain',
        text: line.state.entries.length === 1 ? 'one key' : `${count(line.state.entries.length)} keys${line.state.more ? ', the first ones' : ''}`,
      });
    } else if (line.live) {
      add({ kind: 'watching', tone: 'plain', text: line.live.epoch ? `from offset ${line.live.offset ?? 0} on, epoch ${line.live.epoch}` : 'from now on' });
    } else if (line.pub) {
      const e = line.pub;
      now.delete(e.key); // to keep the order of the changes
      if (!e.removed) now.set(e.key, { ...e, changed: Date.now() });
      if (now.size > mostKeys) {
        now.delete(now.keys().next().value!);
        rest.current = true;
      }
      add({
        kind: e.removed ? 'removed' : 'set',
        tone: e.removed ? 'warn' : 'good',
        text: <span class="mono strong">{e.key} </span>,
        ...(!e.removed && { value: e.data ?? e.b64data }),
        ...(e.offset && { offset: e.offset }),
        ...(e.info && { user: e.info.user || 'anonymous' }),
      });
    } else if (line.error) add({ kind: 'error', tone: 'bad', text: `${line.error.code} ${line.error.message}` });
    else if (line.unsubscribe) add({ kind: 'unsubscribed', tone: 'bad', text: `${line.unsubscribe.code} ${line.unsubscribe.reason}` });
    else if (line.disconnect) add({ kind: 'disconnected', tone: 'bad', text: `${line.disconnect.code} ${line.disconnect.reason}` });
  });
  const shown = [...keys.current.values()].filter(e => !text || e.key.toLowerCase().includes(text.toLowerCase()));
  return (
    <>
      <Panel
        title="Live"
        tools={
          <>
            <Follows on={on} state={state} />
            <button type="button" onClick={() => setOn(!on)}>
              {on ? 'Pause' : 'Resume'}
            </button>
            <button type="button" onClick={clear}>
              Clear
            </button>
          </>
        }
      >
        <p class="hint">You are one of the subscribers now, without presence. The newest changes come first; {most} lines are kept.</p>
        {on && state !== 'live' && state !== 'waiting' && <Notice tone="bad">{state}</Notice>}
        <Lines lines={lines} empty="Reading the map…" />
      </Panel>
      <Panel
        title="Keys now"
        tools={
          <span class="faint">
            {count(keys.current.size)}
            {rest.current && ' of more'}
          </span>
        }
      >
        {rest.current && <Notice>The map has more keys than are followed here. The tab State has all, page by page.</Notice>}
        <div class="bar">
          <Search label="Search keys" value={text} onInput={setText} />
        </div>
        <Table
          caption="Keys now"
          rows={shown}
          rowKey={e => e.key}
          initial={{ column: 0, down: false }}
          most={50}
          empty={text ? 'No key is like this.' : 'The map is empty.'}
          columns={[
            { name: 'Key', sort: e => e.key, cell: e => <span class="mono strong">{e.key}</span> },
            {
              name: 'Value',
              wide: true,
              cell: e => (
                <span key={e.changed ?? 0} class={e.changed ? 'flash' : ''}>
                  <Json value={e.data ?? e.b64data} />
                </span>
              ),
            },
            { name: 'Offset', number: true, sort: e => e.offset ?? 0, cell: e => e.offset ?? '–' },
            {
              name: 'Changed',
              sort: e => e.changed ?? 0,
              cell: e => (e.changed ? <time class="mono faint">{clock(e.changed)}</time> : <span class="faint">before</span>),
            },
          ]}
        />
      </Panel>
    </>
  );
}

// Follows tells whether a stream is live.
function Follows({ on, state }: { on: boolean; state: string }) {
  return on ? state === 'live' ? <Badge tone="good">live</Badge> : <Badge>connecting</Badge> : <Badge tone="warn">paused</Badge>;
}

export function Lines({ lines, empty }: { lines: Line[]; empty: string }) {
  if (lines.length === 0) return <Empty>{empty}</Empty>;
  return (
    <ol class="lines" reversed tabIndex={0} aria-label="Messages">
      {lines.map(l => (
        <li key={l.n}>
          <time class="mono faint">{clock(l.time)}</time>
          <Badge tone={l.tone}>{l.kind}</Badge>
          <div class="line-body">
            {l.offset !== undefined && <span class="faint">#{l.offset} </span>}
            {l.user !== undefined && <b>{l.user} </b>}
            {l.text}
            {l.value !== undefined && <Json value={l.value} />}
          </div>
        </li>
      ))}
    </ol>
  );
}
