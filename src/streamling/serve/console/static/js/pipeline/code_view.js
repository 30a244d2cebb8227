// Read-only text with the colours of the editor, which is loaded on first use; until then plain text of the same size.
import { html, useEffect, useRef, useState } from "../ui.js";

export function CodeView({ text, language, label, at }) {
  const holder = useRef();
  const [isReady, setReady] = useState(false);
  useEffect(() => {
    let view = null;
    let isGone = false;
    import("../editor/editor.js").then(({ createViewer }) => {
      if (isGone) return;
      view = createViewer(holder.current, { text, language, label, at });
      setReady(true);
    });
    return () => { isGone = true; view?.destroy(); };
  }, [text, language, at]);
  return html`<div class="code-view"><div ref=${holder} />${!isReady && html`<pre class="code">${text}</pre>`}</div>`;
}
