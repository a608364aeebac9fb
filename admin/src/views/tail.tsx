import { useEffect, useState } from 'preact/hooks';
import { Rejected, stream, type ClientInfo, type Publication } from '../api';
import { Badge, Empty, Json, Notice, Panel, type Tone } from '../components';
import { clock } from '../format';

const most = 200;

export interface Line { n: number; time: number; kind: string; tone: Tone; text?: preact.ComponentChildren; value?: unknown; user?: string; offset?: number }

interface Push {
  connect?: { subs?: Record<string, { offset?: number; epoch?: string }> };
  pub?: Publication; join?: { info: ClientInfo }; leave?: { info: ClientInfo };
  unsubscribe?: { code: number; reason: string }; disconnect?: { code: number; reason: string };
}

// useFollow reads a stream, again after a while if it breaks, and keeps its latest lines.
export function useFollow(name: string, body: unknown, key: string, on: boolean, read: (value: any, add: (line: Omit<Line, 'n' | 'time'>, time?: number) => void) => void) {
  const [lines, setLines] = useState<Line[]>([]), [state, setState] = useState<'waiting' | 'live' | string>('waiting');
  useEffect(() => {
    if (!on) return;
    const abort = new AbortController();
    let n = 0, timer = 0, batch: Line[] = [], scheduled = 0;
    // A fast channel costs one drawing per frame.
    const flush = () => { scheduled = 0; const more = batch; batch = []; setLines(was => [...more.reverse(), ...was].slice(0, most)); };
    const add = (line: Omit<Line, 'n' | 'time'>, time = Date.now()) => {
      batch.push({ ...line, n: n++, time });
      if (batch.length > most) batch.shift();
      scheduled ||= window.setTimeout(flush, 50);
    };
    const run = async () => {
      try {
        await stream(name, body, abort.signal, value => { setState('live'); read(value, add); });
        if (!abort.signal.aborted) setState('The stream has ended; it begins again soon.');
      } catch (error) {
        if (abort.signal.aborted || error instanceof Rejected) return;
        setState((error as Error).message);
        if (/^(Bad Request|Too Many)/.test((error as Error).message)) return;
      }
      if (!abort.signal.aborted) timer = window.setTimeout(run, 2000);
    };
    run();
    return () => { abort.abort(); clearTimeout(timer); clearTimeout(scheduled); };
  }, [name, key, on]);
  return { lines, state, clear: () => setLines([]) };
}

// Tail shows what is published into a channel while it is published.
export function Tail({ channel }: { channel: string }) {
  const [on, setOn] = useState(true);
  const { lines, state, clear } = useFollow('tail', { channel }, channel, on, (push: Push, add) => {
    const who = (info: ClientInfo) => info.user || 'anonymous';
    if (push.connect) {
      const sub = push.connect.subs?.[channel];
      add({ kind: 'watching', tone: 'plain', text: sub?.epoch ? `from offset ${sub.offset ?? 0} on, epoch ${sub.epoch}` : 'from now on' });
    } else if (push.pub) {
      add({ kind: 'publication', tone: 'info', value: push.pub.data ?? push.pub.b64data, ...(push.pub.offset && { offset: push.pub.offset }), user: push.pub.info ? who(push.pub.info) : 'backend' });
    } else if (push.join) add({ kind: 'join', tone: 'good', user: who(push.join.info), text: push.join.info.client });
    else if (push.leave) add({ kind: 'leave', tone: 'warn', user: who(push.leave.info), text: push.leave.info.client });
    else if (push.unsubscribe) add({ kind: 'unsubscribed', tone: 'bad', text: `${push.unsubscribe.code} ${push.unsubscribe.reason}` });
    else if (push.disconnect) add({ kind: 'disconnected', tone: 'bad', text: `${push.disconnect.code} ${push.disconnect.reason}` });
  });
  return <Panel title="Live" tools={<>
    {on ? state === 'live' ? <Badge tone="good">live</Badge> : <Badge>connecting</Badge> : <Badge tone="warn">paused</Badge>}
    <button onClick={() => setOn(!on)}>{on ? 'Pause' : 'Resume'}</button><button onClick={clear}>Clear</button>
  </>}>
    <p class="hint">You are one of the subscribers now, without presence. The newest come first; {most} lines are kept.</p>
    {on && state !== 'live' && state !== 'waiting' && <Notice tone="bad">{state}</Notice>}
    <Lines lines={lines} empty="Nothing yet: what is published, joins and leaves appears here." />
  </Panel>;
}

export function Lines({ lines, empty }: { lines: Line[]; empty: string }) {
  if (lines.length === 0) return <Empty>{empty}</Empty>;
  return <ol class="lines" reversed tabIndex={0} aria-label="Messages">
    {lines.map(l => <li key={l.n}>
      <time class="mono faint">{clock(l.time)}</time>
      <Badge tone={l.tone}>{l.kind}</Badge>
      <div class="line-body">
        {l.offset !== undefined && <span class="faint">#{l.offset} </span>}{l.user !== undefined && <b>{l.user} </b>}
        {l.text}{l.value !== undefined && <Json value={l.value} />}
      </div>
    </li>)}
  </ol>;
}
