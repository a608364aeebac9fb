import { useEffect, useState } from 'preact/hooks';
import { get, type About, type NodeInfo, type Part } from '../api';
import { Chart } from '../chart';
import { Badge, Loaded, Notice, Page, Panel, Table, useLoad } from '../components';
import { bytes, count, duration, millis } from '../format';
import { charts, live, watch } from '../live';

export function Overview({ about }: { about: About }) {
  const [now, set] = useState(live());
  useEffect(() => watch(set), []);
  const health = useLoad(() => get<{ parts: Part[] }>('health'), [], 2000);
  const nodes = now.nodes ?? [];
  const total = (of: (n: NodeInfo) => number) => nodes.reduce((sum, n) => sum + of(n), 0);
  const seconds = (value: number) => millis(value * 1000);
  const versions = new Set(nodes.map(n => n.version)).size;

  return <Page title="Overview" lead={<>Answers come from node <b>{about.node}</b>.</>}>
    {now.error && <Notice tone="bad">{now.error}</Notice>}
    {versions > 1 && <Notice tone="warn">The nodes run different versions.</Notice>}
    <dl class="tiles">
      {([['Nodes', nodes.length], ['Clients', total(n => n.num_clients)], ['Users', total(n => n.num_users)],
        ['Subscriptions', total(n => n.num_subs)], ['Channels', total(n => n.num_channels)]] as const).map(([name, n]) =>
        <div class="tile"><dt>{name}</dt><dd>{now.nodes ? count(n) : '–'}</dd></div>)}
    </dl>
    <p class="hint">Users and channels are added up over the nodes: one that is on two nodes counts twice.</p>

    <Panel title={`Delivery of node ${about.node}`} tools={<Ready parts={health.value?.parts} />}>
      <p class="hint">The node sends itself messages, called canaries, through its loops and through each engine. They prove that what is published arrives.</p>
      <Loaded of={health}>{({ parts }) => <Table caption="Parts of the node" rows={parts} rowKey={p => p.part} empty="" columns={[
        { name: 'Part', cell: p => <span class="strong">{p.part}</span> },
        { name: 'State', cell: p => p.error ? <Badge tone="bad">not delivering</Badge> : <Badge tone="good">delivering</Badge> },
        { name: 'Canary took', number: true, cell: p => millis(p.delay_ms) },
        { name: 'Reconnects', number: true, cell: p => count(p.reconnects) },
        { name: 'Problem', wide: true, cell: p => p.error ?? <span class="faint">none</span> },
      ]} />}</Loaded>
    </Panel>

    <div class="charts">
      <Panel><Chart title="Connections" series={charts.connections} turn={now.turn} /></Panel>
      <Panel><Chart title="Messages per second" hint="To and from the clients of this node" series={charts.traffic} turn={now.turn} /></Panel>
      <Panel><Chart title="Publications per second" hint="Published by this node, and received by it from the broker" series={charts.publications} turn={now.turn} /></Panel>
      <Panel><Chart title="Time from publish to delivery" series={charts.delivery} turn={now.turn} unit={seconds} /></Panel>
      <Panel><Chart title="Commands per second" series={charts.commands} turn={now.turn} /></Panel>
      <Panel><Chart title="Errors and disconnects per second" series={charts.refused} turn={now.turn} /></Panel>
    </div>

    <Panel title="Nodes">
      <Table caption="Nodes" rows={nodes} rowKey={n => n.uid} empty={now.nodes ? 'No nodes.' : 'Loading…'} initial={{ column: 0, down: false }} columns={[
        { name: 'Node', sort: n => n.name, cell: n => <><span class="strong">{n.name}</span>{n.uid === about.uid && <> <Badge tone="info">this node</Badge></>}<br /><span class="faint mono">{n.uid}</span></> },
        { name: 'Version', sort: n => n.version, cell: n => n.version },
        { name: 'Up for', number: true, sort: n => n.uptime ?? 0, cell: n => duration(n.uptime ?? 0) },
        { name: 'Clients', number: true, sort: n => n.num_clients, cell: n => count(n.num_clients) },
        { name: 'Users', number: true, sort: n => n.num_users, cell: n => count(n.num_users) },
        { name: 'Subscriptions', number: true, sort: n => n.num_subs, cell: n => count(n.num_subs) },
        { name: 'Channels', number: true, sort: n => n.num_channels, cell: n => count(n.num_channels) },
        ...(nodes.some(n => n.process) ? [
          { name: 'CPU', number: true, cell: (n: NodeInfo) => n.process?.cpu == null ? '–' : `${n.process.cpu.toFixed(1)} %` },
          { name: 'Memory', number: true, cell: (n: NodeInfo) => n.process?.rss == null ? '–' : bytes(n.process.rss) },
        ] : []),
      ]} />
    </Panel>
  </Page>;
}

function Ready({ parts }: { parts: Part[] | undefined }) {
  if (!parts) return null;
  const failing = parts.filter(p => p.error).length;
  return failing ? <Badge tone="bad">{failing === 1 ? 'one part fails' : `${failing} parts fail`}</Badge> : <Badge tone="good">ready</Badge>;
}
