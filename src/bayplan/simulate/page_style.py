"""How the page looks: white cards on light grey, green, amber and red; dark where the reader's system is, light on paper."""

from __future__ import annotations

from bayplan.explain.svg import FONTS
from bayplan.simulate.charts import CHART_STYLE

# `-soft` is for areas, `-ink` for words: dark enough on its background to be read (WCAG AA).
LIGHT = (
    "--ink:#1d2433;--dim:#5b6477;--line:#e3e7ee;--frame:#aab3c5;--paper:#f6f7fa;--card:#fff;--code:#eef1f6;"
    "--good:#2f9e6e;--good-soft:#d9f0e5;--good-ink:#1c7a52;"
    "--middling:#e2b13c;--middling-soft:#fbf1d6;--middling-ink:#8a6100;"
    "--bad:#c4473a;--bad-soft:#f8deda;--bad-ink:#b23a2e;"
    "--use-0:#eef1f6;--use-1:#d9f0e5;--use-2:#a9dcc3;--use-3:#6cc09a;--use-4:#2f9e6e;--on-use:#12402c"
)
DARK = (
    "--ink:#e6e9ef;--dim:#9aa4b5;--line:#2b3240;--frame:#535e72;--paper:#11151c;--card:#191f29;--code:#252c39;"
    "--good:#3fb883;--good-soft:#1b3a2e;--good-ink:#5fcf9d;"
    "--middling:#d9a93a;--middling-soft:#3a3018;--middling-ink:#e5bd5c;"
    "--bad:#e0675a;--bad-soft:#43221f;--bad-ink:#f08a7e;"
    "--use-0:#252c39;--use-1:#1b3a2e;--use-2:#23583f;--use-3:#2b7d58;--use-4:#3fb883;--on-use:#e6e9ef"
)

PAGE_STYLE = f"""
:root{{color-scheme:light dark;{LIGHT}}}
@media screen and (prefers-color-scheme:dark){{:root{{{DARK}}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;padding:24px 20px 40px;max-width:1360px;background:var(--paper);color:var(--ink);
 font:14px/1.5 {FONTS}}}
h1{{font-size:22px;line-height:1.3;margin:0 0 4px;font-weight:650}}
h2{{font-size:16px;margin:0 0 2px}} h3{{font-size:13px;margin:0 0 8px}}
.others{{font-size:16px;margin:0 0 4px}} p{{margin:0 0 10px}} .dim{{color:var(--dim)}} header{{margin-bottom:18px}}
code{{font:12px ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace;overflow-wrap:anywhere}}
section{{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:16px 18px 18px;margin-bottom:14px}}
.columns{{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:14px}}
.pair{{display:grid;grid-template-columns:3fr 2fr;gap:14px;margin-bottom:14px}} .pair>section{{margin:0;min-width:0}}
section.plain{{background:none;border:0;padding:0}} .columns>article{{min-width:0}}
section.plain article{{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:16px 18px}}
section.plain article[class^=judged]{{border-color:var(--tone);box-shadow:inset 0 3px 0 var(--tone)}}
.judged-good{{--tone:var(--good)}} .judged-middling{{--tone:var(--middling)}} .judged-bad{{--tone:var(--bad)}}
.scheduler{{font-size:16px;font-weight:650}} .about{{color:var(--dim);font-size:12.5px;min-height:3em;margin:0 0 10px}}
.big{{display:grid;grid-template-columns:repeat(3,minmax(max-content,1fr));gap:8px;margin:0 0 12px;max-width:560px}}
.big b{{display:block;font-size:30px;line-height:1.15;font-weight:650;font-variant-numeric:tabular-nums}}
.big span{{color:var(--dim);font-size:12.5px}}
.good{{color:var(--good-ink)}} .middling{{color:var(--middling-ink)}} .bad{{color:var(--bad-ink)}}
.chart{{display:block;width:100%;height:auto;font-family:inherit}}
{CHART_STYLE}
.scroll{{overflow-x:auto}}
table{{border-collapse:collapse;width:100%;font-size:13px}}
th,td{{text-align:left;padding:5px 18px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}}
th{{font-weight:600;white-space:nowrap}} tbody tr:last-child td{{border-bottom:0}}
.number{{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}} .detail td:first-child{{padding-left:16px}}
.detail{{color:var(--dim)}} td.name{{overflow-wrap:anywhere;min-width:130px}}
.bars{{display:grid;grid-template-columns:max-content 1fr;gap:3px 12px;align-items:center;font-size:13px}}
.bars h3{{grid-column:1/-1;margin:8px 0 2px}} .bars h3:first-child{{margin-top:0}}
.bar{{display:flex;align-items:center;gap:8px}}
.bar i{{height:14px;border-radius:3px;background:var(--bad);min-width:2px}} .bar i.none{{background:var(--line)}}
.groups{{display:flex;flex-wrap:wrap;gap:8px;align-items:flex-start}}
.group{{border:1px solid var(--line);border-radius:6px;padding:6px 8px 8px;max-width:100%}}
.group p{{margin:0 0 5px;font-size:12px;display:flex;justify-content:space-between;gap:14px}}
.cells{{display:flex;flex-wrap:wrap;gap:3px}}
.cells i{{width:24px;height:18px;border-radius:3px;font:10px/18px {FONTS};text-align:center;color:var(--on-use);
 background:var(--use-0);overflow:hidden;print-color-adjust:exact;-webkit-print-color-adjust:exact}}
.cells .u1{{background:var(--use-1)}} .cells .u2{{background:var(--use-2)}} .cells .u3{{background:var(--use-3)}}
.cells .u4{{background:var(--use-4)}} .cells .r{{outline:2px solid var(--bad);outline-offset:-2px;font-weight:650}}
.small .cells{{gap:2px}} .small .cells i{{width:11px;height:11px;border-radius:2px;font-size:0}}
.legend{{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:12px;color:var(--dim);margin:12px 0 0}}
.legend>span{{display:inline-flex;align-items:center;gap:6px}}
.maps{{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:14px;margin:0 0 14px}}
.maps figure{{margin:0;min-width:0}} .maps figcaption{{font-size:13px;margin-bottom:5px}}
.maps .picture{{max-height:820px;overflow:auto;border:1px solid var(--line);border-radius:6px}}
.maps svg{{display:block;width:100%;height:auto}}
.bar i,.chart *{{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
footer{{color:var(--dim);font-size:12px}}
@media screen and (prefers-color-scheme:dark){{.maps svg{{filter:invert(.9) hue-rotate(180deg)}}}}
@media (max-width:1000px){{.pair{{grid-template-columns:1fr}}}}
@media print{{:root{{--paper:#fff}} .maps .picture{{max-height:none}} body{{padding:0;max-width:none;font-size:11px}} section,article,figure,tr{{break-inside:avoid}}
 section{{border-color:#ccc}} .columns{{grid-template-columns:repeat(auto-fit,minmax(200px,1fr))}}
 .big b{{font-size:20px}} .big span,.about,table{{font-size:11px}} section.plain article{{padding:10px 12px}} .maps{{grid-template-columns:1fr 1fr}}}}
"""
