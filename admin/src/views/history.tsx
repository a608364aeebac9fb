import { useState } from 'preact/hooks';
import { call, type Publication } from '../api';
import { Badge, Json, Loaded, Notice, Panel, Search, Table, useAction, useLoad } from '../components';
import { count, dateTime } from '../format';

const pageSize = 50;

interface Page {
  publications: Publication[];
  offset: number;
  epoch: string;
}

interface Entry {
  key: string;
  data?: unknown;
  tags?: Record<string, string>;
  offset?: number;
  score?: number;
  removed?: boolean;
  time?: number;
}
interface Entries {
  entries?: Entry[];
  offset?: number;
  epoch?: string;
  cursor?: string;
}

const data = (p: { data?: unknown; b64data?: string }) =>
  p.data === undefined && p.b64data ? <code title="Base64">{p.b64data}</code> : <Json value={p.data} />;

// History shows the newest publications first, page by page.
export function History({ channel }: { channel: string }) {
  const [since, setSince] = useState<{ offset: number; epoch: string }[]>([]);
  const from = since[since.length - 1];
  const page = useLoad(
    signal => call<Page>('history', { channel, limit: pageSize, reverse: true, ...(from && { since: from }) }, signal),
    [channel, from],
    from ? 0 : 5000,
  );
  return (
    <Panel
      title="History"
      tools={
        <button type="button" onClick={page.reload}>
          Refresh
        </button>
      }
    >
      <Loaded of={page}>
        {({ publications, offset, epoch }) => (
          <>
            <p class="hint">
              The stream is at offset <b>{count(offset)}</b>, epoch <code>{epoch}</code>. The newest come first.
            </p>
            <Table
              caption="Publications"
              rows={publications}
              rowKey={p => String(p.offset)}
              empty={from ? 'There are no older ones.' : 'The history is empty.'}
              columns={[
                { name: 'Offset', number: true, cell: p => p.offset ?? '–' },
                { name: 'Data', cell: data, wide: true },
                {
                  name: 'Published by',
                  cell: p =>
                    p.info ? (
                      <>
                        {p.info.user || 'anonymous'}
                        <br />
                        <span class="mono faint">{p.info.client}</span>
                      </>
                    ) : (
                      <span class="faint">backend</span>
                    ),
                },
                ...(publications.some(p => p.tags) ? [{ name: 'Tags', cell: (p: Publication) => <Json value={p.tags} /> }] : []),
              ]}
            />
            <div class="buttons">
              <button type="button" disabled={!from} onClick={() => setSince(since.slice(0, -1))}>
                Newer
              </button>
              <button
                type="button"
                disabled={publications.length < pageSize}
                onClick={() => setSince([...since, { offset: publications[publications.length - 1]!.offset!, epoch }])}
              >
                Older
              </button>
            </div>
          </>
        )}
      </Loaded>
    </Panel>
  );
}

// MapState shows the keys of a map, page by page.
export function MapState({ channel }: { channel: string }) {
  const [cursors, setCursors] = useState(['']),
    [text, setText] = useState(''),
    [key, setKey] = useState('');
  const cursor = cursors[cursors.length - 1]!;
  const page = useLoad(
    signal => call<Entries>('map_read_state', { channel, limit: pageSize, ...(cursor && { cursor }), ...(key && { key }) }, signal),
    [channel, cursor, key],
    cursor ? 0 : 3000,
  );
  const stats = useLoad(signal => call<{ num_keys?: number }>('map_stats', { channel }, signal), [channel], 3000);
  const [dialog, act] = useAction();
  return (
    <Panel
      title="State"
      tools={
        <button type="button" onClick={page.reload}>
          Refresh
        </button>
      }
    >
      <form
        class="bar"
        role="search"
        onSubmit={e => {
          e.preventDefault();
          setCursors(['']);
          setKey(text);
        }}
      >
        <Search
          label="Exact key"
          value={text}
          onInput={v => {
            setText(v);
            if (!v) setKey('');
          }}
        />
        <button type="submit">Find</button>
      </form>
      <Loaded of={page}>
        {({ entries = [], offset = 0, epoch, cursor: next }) => (
          <>
            <p class="hint">
              {stats.value && (
                <>
                  <b>{count(stats.value.num_keys ?? 0)}</b> keys.{' '}
                </>
              )}
              {epoch && (
                <>
                  The map is at offset <b>{count(offset)}</b>, epoch <code>{epoch}</code>.
                </>
              )}
            </p>
            <Table
              caption="Keys"
              rows={entries}
              rowKey={p => p.key}
              empty="There are no keys."
              columns={[
                { name: 'Key', cell: p => <span class="mono strong">{p.key}</span> },
                { name: 'Value', cell: data, wide: true },
                { name: 'Offset', number: true, cell: p => p.offset ?? '–' },
                { name: 'Set at', cell: p => (p.time ? <span class="faint">{dateTime(p.time)}</span> : '–') },
                {
                  name: 'Actions',
                  cell: p => (
                    <button
                      type="button"
                      class="small"
                      onClick={() =>
                        act({
                          title: 'Remove the key',
                          verb: 'Remove',
                          body: (
                            <p>
                              Key <code>{p.key}</code> of <code>{channel}</code> is removed for all subscribers.
                            </p>
                          ),
                          run: async () => {
                            await call('map_remove', { channel, key: p.key });
                            page.reload();
                            stats.reload();
                          },
                          done: 'Removed',
                        })
                      }
                    >
                      Remove
                    </button>
                  ),
                },
              ]}
            />
            <div class="buttons">
              <button type="button" disabled={cursors.length < 2} onClick={() => setCursors(cursors.slice(0, -1))}>
                Previous
              </button>
              <button type="button" disabled={!next} onClick={() => setCursors([...cursors, next!])}>
                Next
              </button>
            </div>
          </>
        )}
      </Loaded>
      {dialog}
    </Panel>
  );
}

// MapChanges shows the newest changes of a map.
export function MapChanges({ channel }: { channel: string }) {
  const page = useLoad(signal => call<Entries>('map_read_stream', { channel, limit: pageSize, reverse: true }, signal), [channel], 2000);
  if (page.error === 'not available') return <Notice>This map keeps no stream of changes.</Notice>;
  return (
    <Panel
      title="Changes"
      tools={
        <button type="button" onClick={page.reload}>
          Refresh
        </button>
      }
    >
      <Loaded of={page}>
        {({ entries = [], offset = 0, epoch }) => (
          <>
            <p class="hint">
              The stream is at offset <b>{count(offset)}</b>
              {epoch && (
                <>
                  , epoch <code>{epoch}</code>
                </>
              )}
              . The newest come first.
            </p>
            <Table
              caption="Changes"
              rows={entries}
              rowKey={p => String(p.offset)}
              empty="Nothing has changed of late."
              columns={[
                { name: 'Offset', number: true, cell: p => p.offset ?? '–' },
                { name: 'Key', cell: p => <span class="mono strong">{p.key}</span> },
                { name: 'Change', cell: p => (p.removed ? <Badge tone="warn">removed</Badge> : <Badge tone="good">set</Badge>) },
                { name: 'Value', cell: p => (p.removed ? '' : data(p)), wide: true },
                { name: 'At', cell: p => (p.time ? <span class="faint">{dateTime(p.time)}</span> : '–') },
              ]}
            />
          </>
        )}
      </Loaded>
    </Panel>
  );
}
