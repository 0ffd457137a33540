"""How the report's page looks, on light and on dark."""

from __future__ import annotations

_LIGHT = """\
--page: #ffffff; --box: #f6f8fa; --line: #d5dbe1; --text: #1f2328; --muted: #57606a;
--followed: #2563c9; --cut: #c2570c; --new: #9aa4af; --good: #1a7f37; --bad: #b42318;
--way: #fff6ed; color-scheme: light;"""

_DARK = """\
--page: #15191f; --box: #1d232b; --line: #343c46; --text: #e6eaef; --muted: #a0aab5;
--followed: #5b9dff; --cut: #f0883e; --new: #626d79; --good: #56c271; --bad: #ff8a80;
--way: #2a211a; color-scheme: dark;"""

# `&` is the page's element. It is named often enough to win over what a notebook says
# of tables and headings.
_RULES = """\
& { background: var(--page); color: var(--text); padding: 20px 24px; box-sizing: border-box;
  max-width: 1120px; margin: 0 auto; text-align: left; overflow-wrap: break-word;
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
& h2 { font-size: 20px; font-weight: 600; line-height: 1.3; margin: 0; }
& h3 { font-size: 16px; font-weight: 600; line-height: 1.3; margin: 28px 0 8px; }
& p { margin: 0 0 8px; }
& .replayed { font-size: 32px; font-weight: 700; color: var(--followed); }
& .muted { color: var(--muted); font-size: 12px; font-weight: 400; }
& code { font: 12px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono",
  monospace; color: inherit; background: none; padding: 0; }
& .bar { display: flex; gap: 2px; height: 20px; margin: 16px 0 10px; }
& .bar div { flex: 1 1 0; min-width: 2px; border-radius: 3px; }
& .followed { background: var(--followed); }
& .cut { background: var(--cut); }
& .new { background: var(--new); }
& .legend { display: flex; flex-wrap: wrap; gap: 8px 32px; }
& .swatch { display: inline-block; width: 10px; height: 10px; border-radius: 2px;
  margin-right: 6px; }
& .obstacle { background: var(--way); border-left: 4px solid var(--cut);
  padding: 8px 12px; border-radius: 3px; }
& .wide { overflow-x: auto; }
& table { border-collapse: collapse; width: 100%; margin: 0; font-size: 13px; border: 0;
  table-layout: auto; color: inherit; }
& tr, & tbody tr:hover { background: none; }
& th, & td { padding: 6px 16px 6px 0; text-align: left; vertical-align: top; border: 0;
  border-bottom: 1px solid var(--line); line-height: 1.5; max-width: none;
  white-space: normal; }
& th { color: var(--muted); font-size: 12px; font-weight: 500; white-space: nowrap; }
& th:last-child, & td:last-child { padding-right: 0; }
& .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap;
  width: 1%; }
& .short { white-space: nowrap; width: 1%; }
& .long { overflow-wrap: anywhere; min-width: 160px; }
& .remedy { color: var(--good); }
& .remedy::before { content: "→ "; }
& .told { min-width: 110px; }
& .wide + .muted, & details + .muted { margin-top: 6px; }
& .reason + .reason { margin-top: 6px; }
& .place { font-weight: 500; }
& .place + code { display: block; color: var(--muted); }
& .state { white-space: nowrap; font-weight: 500; }
& .state::before { content: "● "; color: var(--new); }
& .good::before { color: var(--good); }
& .bad::before { color: var(--bad); }
& details { margin-top: 12px; border: 1px solid var(--line); border-radius: 6px;
  background: var(--box); padding: 0 12px; }
& summary { cursor: pointer; padding: 8px 0; font-weight: 500; color: var(--text); }
& details[open] { padding-bottom: 12px; }
& td details { background: none; border: 0; padding: 0; margin: 0; }
& td summary { padding: 0; font-size: 12px; color: var(--muted); }
& details tr:last-child td { border-bottom: 0; }
"""

_ROOT = ".reprise.reprise.reprise"

# Where the page around it is dark: JupyterLab, Visual Studio Code and Colab say so by an
# attribute; elsewhere the system's choice counts.
_DARK_AROUND = (
    '[data-jp-theme-light="false"]',
    "body.vscode-dark",
    "body.vscode-high-contrast",
    "html[theme=dark]",
)
_LIGHT_AROUND = (
    '[data-jp-theme-light="true"]',
    "body.vscode-light",
    "html[theme=light]",
)


def _around(themes: tuple[str, ...]) -> str:
    return ", ".join(f"{theme} .reprise" for theme in themes)


STYLE = f"""
.reprise {{ {_LIGHT} }}
@media (prefers-color-scheme: dark) {{ .reprise {{ {_DARK} }} }}
{_around(_LIGHT_AROUND)} {{ {_LIGHT} }}
{_around(_DARK_AROUND)} {{ {_DARK} }}
{_RULES.replace("&", _ROOT)}"""
