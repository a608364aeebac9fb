import { useState } from 'preact/hooks';
import { call } from '../api';
import { Loaded, Page, Panel, Search, Table, useLoad } from '../components';
import { count } from '../format';
import { go, link } from '../router';

export function Channels() {
  const [pattern, setPattern] = useState(''),
    [filter, setFilter] = useState('');
  const found = useLoad(
    async signal => {
      const { channels } = await call<{ channels: Record<string, { num_clients?: number }> }>('channels', filter ? { pattern: globOf(filter) } : {}, signal);
      return Object.entries(channels)
        .map(([name, c]) => ({ name, clients: c.num_clients ?? 0 }))
        .sort((a, b) => (a.name < b.name ? -1 : 1));
    },
    [filter],
    5000,
    rows => rows.length,
  );
  return (
    <Page
      title="Channels"
      lead="Channels that have subscribers now, on all nodes."
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
          setFilter(pattern.trim());
        }}
      >
        <Search
          label="Filter by name"
          placeholder="Part of a name, or a pattern such as chat:*"
          value={pattern}
          onInput={v => {
            setPattern(v);
            if (!v) setFilter('');
          }}
        />
        <button type="submit">Filter</button>
        <button type="button" disabled={!pattern.trim()} onClick={() => go('channel', pattern.trim())}>
          Open this name
        </button>
      </form>
      <Panel>
        <Loaded of={found}>
          {rows => (
            <>
              <p class="hint">
                {rows.length === 1 ? 'One channel' : `${count(rows.length)} channels`}
                {filter && (
                  <>
                    {' '}
                    match <code>{globOf(filter)}</code>
                  </>
                )}
                . A channel without subscribers is not listed, but its name can be opened.
              </p>
              <Table
                caption="Channels"
                rows={rows}
                rowKey={c => c.name}
                initial={{ column: 1, down: true }}
                empty="No channel has subscribers."
                columns={[
                  {
                    name: 'Channel',
                    sort: c => c.name,
                    cell: c => (
                      <a class="mono" href={link('channel', c.name)}>
                        {c.name}
                      </a>
                    ),
                    wide: true,
                  },
                  { name: 'Subscribers', number: true, sort: c => c.clients, cell: c => count(c.clients) },
                ]}
              />
            </>
          )}
        </Loaded>
      </Panel>
    </Page>
  );
}

// globOf makes a pattern of the typed text; it has to match the whole name.
function globOf(text: string): string {
  return /[*?[{]/.test(text) ? text : `*${text}*`;
}
