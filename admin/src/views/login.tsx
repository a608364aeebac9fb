import { useEffect, useRef, useState } from 'preact/hooks';
import { logIn } from '../api';
import { Field, Notice } from '../components';

export function Login({ notice, onDone }: { notice: string; onDone: () => Promise<void> }) {
  const [error, setError] = useState(''),
    [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = 'Log in – Gyro admin';
    field.current?.focus();
  }, []);
  const submit = async (e: Event) => {
    e.preventDefault();
    setBusy(true);
    setError('');
    try {
      await logIn(field.current!.value);
      await onDone();
    } catch (error) {
      setError((error as Error).message);
      setBusy(false);
      field.current?.select();
    }
  };
  return (
    <main class="login">
      <form class="panel" onSubmit={submit}>
        <h1>
          <img src="./icon.svg" alt="" width="32" height="32" />
          Gyro admin
        </h1>
        {notice && !error && <Notice tone="warn">{notice}</Notice>}
        {error && <Notice tone="bad">{error}</Notice>}
        <Field label="Password" hint="That of admin.password in the configuration.">
          {props => <input {...props} ref={field} type="password" name="password" autocomplete="current-password" required />}
        </Field>
        <button class="primary" type="submit" disabled={busy}>
          {busy ? 'Logging in…' : 'Log in'}
        </button>
      </form>
    </main>
  );
}
