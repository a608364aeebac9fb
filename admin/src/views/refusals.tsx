import { useState } from 'preact/hooks';
import { get } from '../api';
import { Badge, KeyLink, Loaded, Page, Panel, Search, Table, useLoad } from '../components';
import { count, dateTime } from '../format';

interface Example {
  time: string;
  client?: string;
  user?: string;
  channel?: string;
  method?: string;
  path?: string;
  addr?: string;
  origin?: string;
  reason?: string;
}
interface Refused {
  kind: string;
  code?: number;
  key?: string;
  count: number;
  first: string;
  last: string;
  examples: Example[];
}

// Refusals shows the refusals of the node since its start, by kind, with the latest examples.
export function Refusals() {
  const [text, setText] = useState('');
  const found = useLoad(() => get<{ since?: string; refusals: Refused[] | null }>('refusals'), [], 3000);
  return (
    <Page
      title="Refusals"
      lead="What this node has refused since its start, why, and which key would allow it."
      tools={
        <button type="button" onClick={found.reload}>
          Refresh
        </button>
      }
    >
      <div class="bar">
        <Search label="Search in the refusals" value={text} onInput={setText} />
      </div>
      <Panel>
        <Loaded of={found}>
          {({ refusals, since }) => {
            const shown = (refusals ?? []).filter(r => JSON.stringify(r).toLowerCase().includes(text.toLowerCase()));
            return (
              <>
                {since && <p class="hint">Counted since {dateTime(Date.parse(since))}.</p>}
                <Table
                  caption="Refusals"
                  rows={shown}
                  rowKey={r => `${r.kind} ${r.code} ${r.key}`}
                  initial={{ column: 1, down: true }}
                  empty={refusals?.length ? 'No refusal has this text.' : 'Nothing was refused.'}
                  columns={[
                    {
                      name: 'What',
                      narrow: true,
                      sort: r => r.kind,
                      cell: r => (
                        <>
                          <span class="strong">{r.kind || 'others'}</span>
                          {r.code ? (
                            <>
                              {' '}
                              <Badge>{r.code}</Badge>
                            </>
                          ) : (
                            ''
                          )}
                        </>
                      ),
                    },
                    { name: 'Count', number: true, sort: r => r.count, cell: r => count(r.count) },
                    { name: 'Last', narrow: true, sort: r => r.last, cell: r => <span class="faint">{dateTime(Date.parse(r.last))}</span> },
                    { name: 'Key', key: true, cell: r => <KeyLink of={r.key} /> },
                    {
                      name: 'Latest',
                      wide: true,
                      cell: r => (
                        <ul class="plain">
                          {r.examples.slice(0, 3).map(e => (
                            <li>
                              {e.reason}{' '}
                              <span class="faint">
                                {[e.user && `user ${e.user}`, e.channel, e.method, e.path, e.addr, e.origin].filter(Boolean).join(' · ')}
                              </span>
                            </li>
                          ))}
                        </ul>
                      ),
                    },
                  ]}
                />
              </>
            );
          }}
        </Loaded>
      </Panel>
    </Page>
  );
}
