import { useState } from 'preact/hooks';
import { get } from '../api';
import { Badge, Breakable, Json, Loaded, Page, Panel, Search, Table, useLoad } from '../components';
import { count } from '../format';
import { parse } from '../router';

export interface Item {
  key: string;
  value: unknown;
  default?: string;
  changed?: boolean;
  secret?: boolean;
  reload?: boolean;
  idle?: string;
  doc?: string;
}

export function Configuration() {
  const found = useLoad(() => get<{ keys: Item[] }>('config'), []);
  return (
    <Page
      title="Configuration"
      lead="What is in force on this node, by file, environment and flags. Secrets are hidden."
      tools={
        <button type="button" onClick={found.reload}>
          Refresh
        </button>
      }
    >
      <Loaded of={found}>{({ keys }) => <Settings items={keys} caption="Keys" search={parse(location.hash).id} />}</Loaded>
    </Page>
  );
}

// Settings lists keys with their values.
export function Settings({ items, caption, search = '' }: { items: Item[]; caption: string; search?: string }) {
  const [text, setText] = useState(search),
    [all, setAll] = useState(search !== '' || !items.some(i => i.changed));
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = items.filter(i => (all || i.changed || words.length > 0) && words.every(w => `${i.key} ${i.doc ?? ''}`.toLowerCase().includes(w)));
  return (
    <>
      <div class="bar">
        <Search label="Search keys" placeholder="Part of a key, or of what it means" value={text} onInput={setText} />
        <label class="check">
          <input type="checkbox" checked={all} onChange={e => setAll(e.currentTarget.checked)} /> Also defaults
        </label>
      </div>
      <Panel>
        <p class="hint">
          {count(shown.length)} of {count(items.length)} keys; {count(items.filter(i => i.changed).length)} differ from their defaults.
        </p>
        <Table
          caption={caption}
          rows={shown}
          rowKey={i => i.key}
          most={100}
          empty="No key is like this."
          columns={[
            {
              name: 'Key',
              key: true,
              cell: i => (
                <>
                  <code class="key">
                    <Breakable of={i.key} />
                  </code>
                  {i.changed && (
                    <>
                      {' '}
                      <Badge tone="info">set</Badge>
                    </>
                  )}
                  {i.idle && (
                    <>
                      {' '}
                      <Badge tone="warn">no effect</Badge>
                    </>
                  )}
                </>
              ),
            },
            {
              name: 'Value',
              cell: i =>
                i.secret ? (
                  i.value === '' || (Array.isArray(i.value) && i.value.length === 0) ? (
                    <span class="faint">not set</span>
                  ) : (
                    <Value of={i.value} />
                  )
                ) : (
                  <Value of={i.value} />
                ),
            },
            { name: 'Default', cell: i => (i.default ? <code>{i.default}</code> : <span class="faint">–</span>) },
            {
              name: 'Meaning',
              wide: true,
              cell: i => (
                <>
                  {i.doc}
                  {i.idle && ` No effect: ${i.idle}.`}
                  {i.reload && (
                    <>
                      {' '}
                      <Badge tone="good">reload</Badge>
                    </>
                  )}
                </>
              ),
            },
          ]}
        />
      </Panel>
    </>
  );
}

function Value({ of }: { of: unknown }) {
  if (of === '') return <span class="faint">empty</span>;
  if (typeof of === 'string') return <code>{of}</code>;
  return <Json value={of} />;
}
