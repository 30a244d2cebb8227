import { readAccess, useAccess } from "./access.js";
import { get, token } from "./api.js";
import { TokenScreen } from "./dialogs.js";
import { forgetDrafts } from "./editor/draft.js";
import { FleetScreen } from "./fleet/screen.js";
import { askToLeave, pipelineApi, useRoute } from "./router.js";
import { Button, Empty, ErrorBox, html, Icon, render, Toasts, useEffect, useRef, useState } from "./ui.js";

const THEMES = { "": "dark", dark: "light", light: "" };
const THEME_NAMES = { "": "as the system", dark: "dark", light: "light" };

function ThemeButton() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "");
  const change = () => {
    const next = THEMES[theme];
    if (next) { document.documentElement.dataset.theme = next; localStorage.setItem("streamling.theme", next); }
    else { delete document.documentElement.dataset.theme; localStorage.removeItem("streamling.theme"); }
    setTheme(next);
    dispatchEvent(new Event("themechange"));
  };
  return html`<${Button} icon="theme" kind="quiet" label="Theme: ${THEME_NAMES[theme]}" onClick=${change} />`;
}

const PAGES = [["home", "#/", "Pipelines", "viewer"], ["new", "#/new", "New pipeline", "operator"],
  ["secrets", "#/secrets", "Secrets", "admin"], ["audit", "#/audit", "Audit", "admin"]];

function Header({ isFleet, screen, onForget }) {
  const access = useAccess();
  return html`<header class="top">
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to content</a>
    <a class="brand" href="#/"><img src="icon.svg" alt="" width="24" height="24" />Streamling</a>
    ${isFleet && html`<nav aria-label="Main">
      ${PAGES.filter(([key, , , role]) => access.may(role) && (key !== "secrets" || access.isGlobal)).map(([key, href, text]) => html`<a key=${key} href=${href}
        aria-current=${screen === key ? "page" : undefined}>${text}</a>`)}
    </nav>`}
    <div class="top-end">
      ${token.get() && html`<${Button} icon="key" kind="quiet" label="Forget the token" onClick=${onForget} />`}
      <${ThemeButton} />
    </div>
  </header>`;
}

// A screen with large libraries, which are loaded when they are needed.
function lazy(load) {
  return function Lazy(props) {
    const [screen, setScreen] = useState(null);
    useEffect(() => { load().then((found) => setScreen(() => found)); }, []);
    return screen ? html`<${screen} ...${props} />` : html`<p class="loading">Loading …</p>`;
  };
}

const EditorScreen = lazy(() => import("./editor/screen.js").then((module) => module.DefinitionScreen));
const SecretsScreen = lazy(() => import("./settings/secrets.js").then((module) => module.SecretsScreen));
const AuditScreen = lazy(() => import("./settings/audit.js").then((module) => module.AuditScreen));
const PipelineScreen = lazy(() => import("./pipeline/screen.js").then((module) => module.PipelineScreen));

function Screen({ settings, route }) {
  if (settings.view === "pipeline") return html`<${PipelineScreen} base="/admin" />`;
  const pipeline = { namespace: route.namespace, name: route.name };
  switch (route.screen) {
    case "home": return html`<${FleetScreen} />`;
    case "new": return html`<${EditorScreen} key="new" names=${settings.names} />`;
    case "edit": return html`<${EditorScreen} key=${location.hash} pipeline=${pipeline} at=${route.at} />`;
    case "secrets": return html`<${SecretsScreen} />`;
    case "audit": return html`<${AuditScreen} />`;
    case "pipeline": return html`<${PipelineScreen} key=${location.hash} base=${pipelineApi(pipeline)} pipeline=${pipeline} />`;
    default: return html`<${Empty} title="This page does not exist"><a href="#/">Show all pipelines</a><//>`;
  }
}

function App() {
  const [settings, setSettings] = useState(null);
  const [failure, setFailure] = useState(null);
  const [asksToken, setAsksToken] = useState(false);
  const route = useRoute();
  const main = useRef();
  const isFirst = useRef(true);
  useEffect(() => { get("settings.json").then(setSettings, setFailure); }, []);
  useEffect(() => token.onMissing(() => setAsksToken(true)), []);
  useEffect(() => { if (settings?.view === "fleet" && !asksToken) readAccess(); }, [settings, asksToken]);
  useEffect(() => {
    if (!isFirst.current) main.current?.focus({ preventScroll: true });
    isFirst.current = false;
  }, [route]);
  if (failure) return html`<main class="page"><${ErrorBox} error=${failure} title="The console cannot start" /></main>`;
  if (!settings) return html`<${Header} />`;
  const forget = () => askToLeave(() => { forgetDrafts(); token.set(null); setAsksToken(true); });
  if (asksToken) {
    const accept = (value) => { token.set(value); setAsksToken(false); };
    return html`<${TokenScreen} wasWrong=${Boolean(token.get())} onToken=${accept} />`;
  }
  return html`<${Header} isFleet=${settings.view === "fleet"} screen=${route.screen} onForget=${forget} />
    <main class="page" id="main" tabindex="-1" ref=${main}><${Screen} settings=${settings} route=${route} /></main>
    <footer class="foot"><${Icon} name="source" />Streamling ${settings.version}</footer>
    <${Toasts} />`;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
