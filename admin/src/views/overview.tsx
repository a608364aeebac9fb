import { useEffect, useState } from 'preact/hooks';
import type { About, NodeInfo, Part } from '../api';
import { Chart } from '../chart';
import { Badge, Loading, Notice, Page, Panel, Table, type Column } from '../components';
import { bytes, count, duration, millis, short } from '../format';
import { all, forget, live, watch, type Node } from '../live';

// chosen is the node whose charts were looked at last; empty for all.
let chosen = '';

const seconds = (value: number) => millis(value * 1000);

export function Overview({ about }: { about: About }) {
  const [now, set] = useState(live()),
    [uid, choose] = useState(chosen);
  useEffect(() => watch(set), []);
  const nodes = now.nodes,
    there = nodes.filter(n => !n.gone);
  const total = (of: (n: NodeInfo) => number) => there.reduce((sum, n) => sum + (n.info ? of(n.info) : 0), 0);
  const versions = new Set(there.flatMap(n => (n.info ? [n.info.version] : []))).size;
  const shown = nodes.find(n => n.uid === uid);
  const show = (next: string) => {
    chosen = next;
    choose(next);
  };

  return (
    <Page
      title="Overview"
      lead={
        <>
          Answers come from node <b>{about.node}</b>.
        </>
      }
      tools={now.loaded && <Verdict nodes={nodes} />}
    >
      {versions > 1 && <Notice tone="warn">The nodes run different versions.</Notice>}
      <dl class="tiles">
        {(
          [
            ['Nodes', there.length],
            ['Clients', total(n => n.num_clients)],
            ['Users', total(n => n.num_users)],
            ['Subscriptions', total(n => n.num_subs)],
            ['Channels', total(n => n.num_channels)],
          ] as const
        ).map(([name, n]) => (
          <div class="tile">
            <dt>{name}</dt>
            <dd>{now.loaded ? count(n) : '–'}</dd>
          </div>
        ))}
      </dl>
      {there.length > 1 && <p class="hint">Users and channels are added up over the nodes: one that is on two nodes counts twice.</p>}

      <Panel title="Nodes">
        {now.loaded ? (
          <Table
            caption="Nodes"
            rows={nodes}
            rowKey={n => n.uid}
            empty="No nodes."
            initial={{ column: 0, down: false }}
            columns={columns(nodes, about, uid, show)}
          />
        ) : (
          <Loading />
        )}
      </Panel>

      <div class="chart-bar">
        <h2>
          {shown ? `Charts of node ${shown.name}` : nodes.length > 1 ? 'Charts of all nodes' : 'Charts'} <Since charts={shown?.charts ?? all} />
        </h2>
        {nodes.length > 1 && (
          <select aria-label="Charts of" value={shown?.uid ?? ''} onChange={e => show(e.currentTarget.value)}>
            <option value="">All nodes</option>
            {nodes
              .toSorted((a, b) => (a.name < b.name ? -1 : 1))
              .map(n => (
                <option value={n.uid}>
                  {n.name}
                  {n.gone ? ' (gone)' : ''}
                </option>
              ))}
          </select>
        )}
      </div>
      <Drawn key={shown?.uid ?? ''} node={shown} turn={now.turn} />

      <Panel title={shown ? `Delivery of node ${shown.name}` : 'Delivery'}>
        <p class="hint">
          Each node sends itself messages, called canaries, through its loops and through each engine. They prove that what is published arrives.
        </p>
        {now.loaded ? <Delivery nodes={shown ? [shown] : there} /> : <Loading />}
      </Panel>
    </Page>
  );
}

// Since tells when the charts begin.
function Since({ charts: { since } }: { charts: Node['charts'] }) {
  if (since === undefined) return null;
  return (
    <time class="faint since" dateTime={new Date(since * 1000).toISOString()}>
      since {new Date(since * 1000).toLocaleTimeString('en-GB')}
    </time>
  );
}

// Drawn are the charts of a node, or of all.
function Drawn({ node, turn }: { node: Node | undefined; turn: number }) {
  const charts = node?.charts ?? all,
    of = node ? 'this node' : 'all nodes';
  const measured = (line: { lines: (number | null)[][] }) => line.lines.some(l => l.some(v => v !== null));
  if (node && !node.figures && !node.gone) {
    return (
      <Notice tone="warn">
        {node.vitals?.error ? (
          `Node ${node.name}: ${node.vitals.error}.`
        ) : (
          <>
            Node {node.name} measures nothing: <code>admin.enabled</code> and <code>prometheus.enabled</code> are off there.
          </>
        )}
      </Notice>
    );
  }
  return (
    <div class="charts">
      <Panel>
        <Chart title="Connections" hint={`Clients of ${of}`} series={charts.of('connections')} turn={turn} unit={count} />
      </Panel>
      <Panel>
        <Chart title="Messages per second" hint={`To and from the clients of ${of}`} series={charts.of('traffic')} turn={turn} />
      </Panel>
      <Panel>
        <Chart title="Bytes per second" hint={`To and from the clients of ${of}, before compression`} series={charts.of('bytes')} turn={turn} unit={bytes} />
      </Panel>
      <Panel>
        <Chart title="Publications per second" hint={`Published by ${of}, and received from the broker`} series={charts.of('publications')} turn={turn} />
      </Panel>
      <Panel>
        <Chart
          title="From publish to write"
          hint="How long it takes from a publish to the write to the last subscriber's connection"
          series={charts.of('delivery')}
          turn={turn}
          unit={seconds}
        />
      </Panel>
      <Panel>
        <Chart
          title="Commands per second"
          hint="Of the server API and of clients; without those of this interface"
          series={charts.of('commands')}
          turn={turn}
        />
      </Panel>
      <Panel>
        <Chart title="Errors and disconnects per second" series={charts.of('refused')} turn={turn} />
      </Panel>
      <Panel>
        <Chart title="Waiting for slow clients" hint="Bytes that clients have not taken yet" series={charts.of('queued')} turn={turn} unit={bytes} />
      </Panel>
      {measured(charts.of('cpu')) && (
        <Panel>
          <Chart title="CPU" series={charts.of('cpu')} turn={turn} unit={percent} />
        </Panel>
      )}
      {measured(charts.of('memory')) && (
        <Panel>
          <Chart title="Memory" series={charts.of('memory')} turn={turn} unit={bytes} />
        </Panel>
      )}
    </div>
  );
}

const percent = (value: number) => `${short(value)} %`;

function columns(nodes: Node[], about: About, uid: string, show: (uid: string) => void): Column<Node>[] {
  const figure = (of: (n: NodeInfo) => number) => (n: Node) => (n.info && !n.gone ? count(of(n.info)) : '–');
  const by = (of: (n: NodeInfo) => number) => (n: Node) => (n.info ? of(n.info) : -1);
  return [
    {
      name: 'Node',
      sort: n => n.name,
      cell: n => (
        <>
          <span class="strong whole">{n.name}</span>
          {n.uid === about.uid && (
            <>
              {' '}
              <Badge tone="info">answers</Badge>
            </>
          )}
          <br />
          <span class="faint whole" title={n.uid}>
            {n.info ? `${n.info.version}, up ${duration(n.info.uptime ?? 0)}` : n.uid}
          </span>
        </>
      ),
    },
    { name: 'Delivery', sort: n => severity(n), cell: n => <State of={n} /> },
    { name: 'Clients', number: true, sort: by(n => n.num_clients), cell: figure(n => n.num_clients) },
    { name: 'Subscriptions', number: true, sort: by(n => n.num_subs), cell: figure(n => n.num_subs) },
    { name: 'Channels', number: true, sort: by(n => n.num_channels), cell: figure(n => n.num_channels) },
    { name: 'Sent per s', number: true, sort: n => n.sent ?? -1, cell: n => (n.sent === null ? '–' : short(n.sent)) },
    { name: 'Delivery, 99%', number: true, sort: n => n.slowest ?? -1, cell: n => (n.slowest === null ? '–' : seconds(n.slowest)) },
    ...(nodes.some(n => n.info?.process)
      ? [
          {
            name: 'CPU',
            number: true,
            sort: (n: Node) => n.info?.process?.cpu ?? -1,
            cell: (n: Node) => (n.info?.process?.cpu == null ? '–' : percent(n.info.process.cpu)),
          },
          {
            name: 'Memory',
            number: true,
            sort: (n: Node) => n.info?.process?.rss ?? -1,
            cell: (n: Node) => (n.info?.process?.rss == null ? '–' : bytes(n.info.process.rss)),
          },
        ]
      : []),
    ...(nodes.length > 1
      ? [
          {
            name: 'Show',
            cell: (n: Node) =>
              n.gone ? (
                <button type="button" class="small" onClick={() => forget(n.uid)} aria-label={`Forget node ${n.name}`}>
                  Forget
                </button>
              ) : (
                <button
                  type="button"
                  class="small"
                  aria-pressed={n.uid === uid}
                  aria-label={`Charts of node ${n.name}`}
                  onClick={() => show(n.uid === uid ? '' : n.uid)}
                >
                  Charts
                </button>
              ),
          },
        ]
      : []),
  ];
}

// severity orders nodes by their worst fault.
function severity(n: Node): number {
  return n.gone ? 3 : n.vitals?.error ? 2 : failing(n).length ? 1 : 0;
}

function failing(n: Node): Part[] {
  return (n.vitals?.parts ?? []).filter(p => p.error);
}

function State({ of: n }: { of: Node }) {
  switch (severity(n)) {
    case 3:
      return (
        <Badge title={`It was last seen at ${new Date(n.seen).toLocaleTimeString('en-GB')}`}>gone since {new Date(n.seen).toLocaleTimeString('en-GB')}</Badge>
      );
    case 2:
      return (
        <Badge tone="warn" title={n.vitals!.error!}>
          no answer
        </Badge>
      );
    case 1:
      return <Badge tone="bad">not delivering</Badge>;
  }
  return <Badge tone="good">delivering</Badge>;
}

const does = (nodes: Node[]) => (nodes.length === 1 ? 'does' : 'do');

// Verdict says in a few words whether the cluster delivers.
function Verdict({ nodes }: { nodes: Node[] }) {
  const there = nodes.filter(n => !n.gone),
    bad = there.filter(n => severity(n) === 1),
    silent = there.filter(n => severity(n) === 2);
  if (bad.length) return <Badge tone="bad">{there.length === 1 ? 'not delivering' : `${bad.length} of ${there.length} nodes ${does(bad)} not deliver`}</Badge>;
  if (silent.length)
    return (
      <Badge tone="warn">
        {silent.length} of {there.length} nodes {does(silent)} not answer
      </Badge>
    );
  return <Badge tone="good">{there.length === 1 ? 'delivering' : `all ${there.length} nodes deliver`}</Badge>;
}

interface Row {
  node: Node;
  part?: Part;
}

// Delivery lists the parts of nodes, those that fail first.
function Delivery({ nodes }: { nodes: Node[] }) {
  const rows: Row[] = nodes.flatMap(node => (node.vitals?.parts?.length ? node.vitals.parts.map(part => ({ node, part })) : [{ node }]));
  const worst = (r: Row) => (r.part ? (r.part.error ? 0 : 2) : 1);
  return (
    <Table
      caption="Parts of the nodes"
      rows={rows.toSorted((a, b) => worst(a) - worst(b) || (a.node.name < b.node.name ? -1 : a.node.name > b.node.name ? 1 : 0))}
      rowKey={(r, i) => `${r.node.uid} ${i}`}
      empty="No nodes."
      columns={[
        ...(nodes.length > 1 ? [{ name: 'Node', sort: (r: Row) => r.node.name, cell: (r: Row) => <span class="whole">{r.node.name}</span> }] : []),
        { name: 'Part', sort: r => r.part?.part ?? '', cell: r => <span class="strong">{r.part?.part ?? '–'}</span> },
        {
          name: 'State',
          sort: worst,
          cell: r =>
            !r.part ? (
              <Badge tone="warn">{r.node.gone ? 'gone' : 'no answer'}</Badge>
            ) : r.part.error ? (
              <Badge tone="bad">not delivering</Badge>
            ) : (
              <Badge tone="good">delivering</Badge>
            ),
        },
        { name: 'Canary took', number: true, sort: r => r.part?.delay_ms ?? -1, cell: r => (r.part ? millis(r.part.delay_ms) : '–') },
        { name: 'Reconnects', number: true, sort: r => r.part?.reconnects ?? -1, cell: r => (r.part ? count(r.part.reconnects) : '–') },
        { name: 'Problem', wide: true, cell: r => (r.part ? r.part.error : r.node.vitals?.error) ?? <span class="faint">none</span> },
      ]}
    />
  );
}
