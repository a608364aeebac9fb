import { useState } from 'preact/hooks';
import { post, type About } from '../api';
import { Badge, Field, Loaded, Notice, Page, Panel, Search, useAction, useLoad } from '../components';
import { dateTime } from '../format';
import { Lines, useFollow, type Line } from './tail';

// Warnings shows the latest warnings and errors in the log of the node.
export function Warnings({ about }: { about: About }) {
  const [text, setText] = useState('');
  const { lines, state } = useFollow('logs', undefined, '', true, (value, add) => {
    const { level, time, message, ...rest } = value;
    add(
      {
        kind: level,
        tone: level === 'warn' ? 'warn' : 'bad',
        text: (
          <>
            <span class="strong">{message}</span>{' '}
          </>
        ),
        ...(Object.keys(rest).length > 0 && { value: rest }),
      },
      Date.parse(time),
    );
  });
  const matching = (l: Line) => !text || `${l.kind} ${JSON.stringify(l.value ?? '')} ${words(l.text)}`.toLowerCase().includes(text.toLowerCase());
  const shown = lines.filter(matching);
  return (
    <Page
      title="Warnings"
      lead="The latest warnings and errors in the log of this node, as they come."
      tools={state === 'waiting' || state === 'live' ? <Badge tone="good">live</Badge> : <Badge tone="bad">broken</Badge>}
    >
      {state !== 'waiting' && state !== 'live' && <Notice tone="bad">{state}</Notice>}
      <div class="bar">
        <Search label="Search in the lines" value={text} onInput={setText} />
      </div>
      <Panel>
        <Lines lines={shown} empty={lines.length ? 'No line has this text.' : 'There are no warnings: that is good.'} />
      </Panel>
      {about.endpoints.includes('log_level') && <Level />}
    </Page>
  );
}

interface State {
  level: string;
  configured: string;
  until?: string;
}

// Level sets the level of the log for a time.
function Level() {
  const state = useLoad(() => post<State>('log_level', {}), [], 10_000);
  const [level, setLevel] = useState('debug'),
    [minutes, setMinutes] = useState('10');
  const [dialog, act] = useAction();
  const set = (body: object) => async () => {
    await post('log_level', body);
    state.reload();
  };
  return (
    <Panel title="Level of the log">
      <Loaded of={state}>
        {s => (
          <p class="hint">
            It is <b>{s.level}</b>
            {s.until ? (
              <>
                {' '}
                until {dateTime(Date.parse(s.until))}, then <b>{s.configured}</b> again
              </>
            ) : (
              ', as configured'
            )}
            .
          </p>
        )}
      </Loaded>
      <form
        onSubmit={e => {
          e.preventDefault();
          act({
            title: 'Set the level',
            verb: 'Set',
            danger: false,
            body: (
              <p>
                The log of this node is written from the level <b>{level}</b> on for {minutes} minutes.
              </p>
            ),
            run: set({ level, duration: Number(minutes) * 60 }),
            done: 'The level is set',
          });
        }}
      >
        <Field label="Level">
          {props => (
            <select {...props} value={level} onChange={e => setLevel(e.currentTarget.value)}>
              {['trace', 'debug', 'info', 'warn', 'error'].map(l => (
                <option>{l}</option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Minutes">
          {props => <input {...props} type="number" min="1" max="1440" value={minutes} onInput={e => setMinutes(e.currentTarget.value)} />}
        </Field>
        <div class="buttons">
          <button class="primary" type="submit">
            Set…
          </button>
          <button type="button" disabled={!state.value?.until} onClick={set({ level: '' })}>
            Back to the configured one
          </button>
        </div>
      </form>
      {dialog}
    </Panel>
  );
}

// words are the texts in something that is shown.
function words(shown: unknown): string {
  if (Array.isArray(shown)) return shown.map(words).join(' ');
  if (shown && typeof shown === 'object' && 'props' in shown) return words((shown.props as { children?: unknown }).children);
  return shown == null ? '' : String(shown);
}
