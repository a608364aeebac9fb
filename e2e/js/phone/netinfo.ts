// What a page knows of its network, as NetInfo tells it.
interface State {
  type: string;
  isConnected: boolean;
}

export default {
  addEventListener(listener: (state: State) => void): () => void {
    const tell = () => listener({ type: navigator.onLine ? 'wifi' : 'none', isConnected: navigator.onLine });
    for (const name of ['online', 'offline']) addEventListener(name, tell);
    tell();
    return () => {
      for (const name of ['online', 'offline']) removeEventListener(name, tell);
    };
  },
};
