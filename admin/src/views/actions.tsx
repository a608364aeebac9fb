import { useState } from 'preact/hooks';
import { call, type About } from '../api';
import { Field, Notice, Page, Panel, useAction } from '../components';
import { json, millis } from '../format';

const examples: Record<string, unknown> = {
  publish: { channel: 'chat:index', data: { text: 'Hello' } },
  broadcast: { channels: ['chat:index'], data: { text: 'Hello' } },
  subscribe: { user: '42', channel: 'chat:index' },
  unsubscribe: { user: '42', channel: 'chat:index' },
  disconnect: { user: '42' },
  refresh: { user: '42', expire_at: 0 },
  history: { channel: 'chat:index', limit: 10, reverse: true },
  history_remove: { channel: 'chat:index' },
  presence: { channel: 'chat:index' },
  presence_stats: { channel: 'chat:index' },
  channels: { pattern: '*' },
  info: {},
  rpc: { method: 'name', params: {} },
  connections: { user: '42' },
  flight: { user: '42' },
  explain: { user: '42', channel: 'chat:index' },
  get_user_status: { users: ['42'] },
  update_user_status: { users: ['42'], state: 'away' },
  delete_user_status: { users: ['42'] },
  map_publish: { channel: 'board:index', key: 'k', data: 1 },
  map_remove: { channel: 'board:index', key: 'k' },
  map_read_state: { channel: 'board:index', limit: 10 },
  map_read_stream: { channel: 'board:index', limit: 10 },
  map_stats: { channel: 'board:index' },
  map_clear: { channel: 'board:index' },
  shared_poll_publish: { channel: 'poll:index', key: 'k', data: 1, version: 1 },
};

// reads are the methods that change nothing, so they run without a question.
const reads = new Set([
  'info',
  'channels',
  'presence',
  'presence_stats',
  'history',
  'map_read_state',
  'map_read_stream',
  'map_stats',
  'connections',
  'flight',
  'explain',
  'get_user_status',
]);

// ApiConsole runs any method of the server API.
export function ApiConsole({ about }: { about: About }) {
  const methods = about.methods.filter(m => m !== 'batch').toSorted();
  const [method, setMethod] = useState('info'),
    [text, setText] = useState('{}'),
    [answer, setAnswer] = useState<{ text: string; bad?: boolean; took: number }>();
  const [dialog, act] = useAction();
  let params: object | undefined,
    wrong = '';
  try {
    params = JSON.parse(text);
  } catch (error) {
    wrong = `This is not JSON: ${(error as Error).message}`;
  }
  const run = async () => {
    const began = performance.now();
    try {
      setAnswer({ text: json(await call(method, params)), took: performance.now() - began });
    } catch (error) {
      setAnswer({ text: (error as Error).message, bad: true, took: performance.now() - began });
    }
  };
  return (
    <Page title="API console" lead="Any method of the server API, with the rights of an operator.">
      <Panel>
        <form
          onSubmit={e => {
            e.preventDefault();
            if (reads.has(method)) run();
            else
              act({
                title: `Run ${method}`,
                verb: 'Run',
                danger: /remove|clear|delete|disconnect|unsubscribe/.test(method),
                body: (
                  <>
                    <p>This changes something:</p>
                    <pre tabIndex={0}>{json(params)}</pre>
                  </>
                ),
                run,
              });
          }}
        >
          <Field label="Method">
            {props => (
              <select
                {...props}
                value={method}
                onChange={e => {
                  setMethod(e.currentTarget.value);
                  setText(json(examples[e.currentTarget.value] ?? {}));
                  setAnswer(undefined);
                }}
              >
                {methods.map(m => (
                  <option>{m}</option>
                ))}
              </select>
            )}
          </Field>
          <Field label="Parameters (JSON)" hint={wrong}>
            {props => (
              <textarea {...props} data-search rows={8} spellcheck={false} value={text} aria-invalid={!!wrong} onInput={e => setText(e.currentTarget.value)} />
            )}
          </Field>
          <div class="buttons">
            <button class="primary" type="submit" disabled={!!wrong}>
              {reads.has(method) ? 'Run' : 'Run…'}
            </button>
          </div>
        </form>
      </Panel>
      {answer && (
        <Panel title="Answer" tools={<span class="faint">{millis(answer.took)}</span>}>
          {answer.bad ? (
            <Notice tone="bad">{answer.text}</Notice>
          ) : (
            <pre class="answer" tabIndex={0} role="region" aria-label="Answer">
              {answer.text}
            </pre>
          )}
        </Panel>
      )}
      {dialog}
    </Page>
  );
}
