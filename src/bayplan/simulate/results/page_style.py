"""How the page looks: white cards on light grey, green, amber and red.

Dark where the reader's system is, light on paper.

The colours are those of `explain/theme.py` as CSS variables. No text is smaller than 11 pixels: charts and NUMA maps
are shown at full size or larger, and scroll by themselves where the screen is narrower.
"""

from __future__ import annotations

from bayplan.explain.svg import FONTS
from bayplan.explain.theme import DARK, LIGHT, css_variables

_USE = " ".join(
    f".cells .u{number}{{background:var(--use-{number});color:var(--use-{number}-ink)}}"
    for number in range(len(LIGHT.use))
)

PAGE_STYLE = f"""
:root{{color-scheme:light dark;{css_variables(LIGHT)}}}
@media screen and (prefers-color-scheme:dark){{:root{{{css_variables(DARK)}}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;padding:24px 20px 40px;max-width:1440px;background:var(--desk);color:var(--ink);
 font:14px/1.5 {FONTS}}}
h1{{font-size:22px;line-height:1.3;margin:0 0 4px;font-weight:650}}
h2{{font-size:16px;margin:0 0 2px}} h3{{font-size:13px;margin:0 0 8px}}
.others{{font-size:16px;margin:0 0 4px}} p{{margin:0 0 10px}} .dim{{color:var(--dim)}} header{{margin-bottom:18px}}
code{{font:12px ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace;overflow-wrap:anywhere}}
section{{background:var(--paper);border:1px solid var(--line);border-radius:8px;
  padding:16px 18px 18px;margin-bottom:14px}}
.columns{{display:grid;gap:14px}}
.pair{{display:grid;grid-template-columns:3fr 2fr;gap:14px;margin-bottom:14px}} .pair>section{{margin:0;min-width:0}}
section.plain{{background:none;border:0;padding:0}} .columns>article{{min-width:0}}
section.plain article{{background:var(--paper);border:1px solid var(--line);border-radius:8px;padding:16px 18px}}
section.plain article[class^=judged]{{border-color:var(--tone);box-shadow:inset 0 3px 0 var(--tone)}}
.judged-good{{--tone:var(--good)}} .judged-middling{{--tone:var(--middling)}} .judged-bad{{--tone:var(--bad)}}
.scheduler{{font-size:16px;font-weight:650}} .about{{color:var(--dim);font-size:12.5px;min-height:3em;margin:0 0 10px}}
.big{{display:grid;grid-template-columns:repeat(3,minmax(max-content,1fr));gap:8px;margin:0 0 12px;max-width:560px}}
.big b{{display:block;font-size:30px;line-height:1.15;font-weight:650;font-variant-numeric:tabular-nums}}
.big span{{color:var(--dim);font-size:12.5px}}
.good{{color:var(--good-ink)}} .middling{{color:var(--middling-ink)}} .bad{{color:var(--bad-ink)}}
.chart{{display:block;width:100%;height:auto;font-family:inherit}} .chart,.maps svg{{max-width:none}}
.scroll{{overflow-x:auto}}
table{{border-collapse:collapse;width:100%;font-size:13px}}
th,td{{text-align:left;padding:5px 18px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}}
th{{font-weight:600;white-space:nowrap}} tbody tr:last-child td{{border-bottom:0}}
.number{{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}}
.detail td:first-child{{padding-left:16px}}
.detail{{color:var(--dim)}} td.name{{overflow-wrap:anywhere;min-width:130px}}
.bars{{display:grid;grid-template-columns:max-content 1fr;gap:3px 12px;align-items:center;font-size:13px}}
.bars h3{{grid-column:1/-1;margin:8px 0 2px}} .bars h3:first-child{{margin-top:0}}
.bar{{display:flex;align-items:center;gap:8px}}
.bar i{{height:14px;border-radius:3px;background:var(--bad);min-width:2px}} .bar i.none{{background:var(--line)}}
.nodes th,.nodes td{{padding:4px 14px 4px 0;vertical-align:middle}} .nodes tbody th{{font-weight:400;font-size:12px}}
.nodes td>div{{display:flex;align-items:center;gap:10px}} .nodes .bad{{font-size:12px;white-space:nowrap}}
.cells{{display:flex;flex-wrap:wrap;gap:3px}}
.cells i{{width:30px;height:18px;border-radius:3px;font:11px/18px {FONTS};text-align:center;
 overflow:hidden;print-color-adjust:exact;-webkit-print-color-adjust:exact}}
{_USE}
.cells .r{{border:2px solid var(--bad);line-height:14px;box-shadow:inset 0 0 0 1px var(--paper);font-weight:650}}
.small .cells{{gap:2px}} .small .cells i{{width:12px;height:12px;border-radius:2px}}
.legend{{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:12px;color:var(--dim);margin:12px 0 0}}
.legend>span{{display:inline-flex;align-items:center;gap:6px}}
.maps{{display:flex;flex-wrap:wrap;gap:14px;margin:0 0 14px}}
.maps figure{{flex:0 1 530px;margin:0;max-width:100%}} .maps figcaption{{font-size:13px;margin-bottom:5px}}
.maps .picture{{overflow:auto;border:1px solid var(--line);border-radius:6px;background:var(--paper)}}
.maps svg{{display:block}}
.bar i,.chart *{{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
footer{{color:var(--dim);font-size:12px;margin-top:18px}} footer p{{margin:0 0 2px}}
@media (max-width:1000px){{.pair{{grid-template-columns:1fr}}}}
@media print{{:root{{--desk:#fff}} body{{padding:0;max-width:none;font-size:11px}}
 section,article,figure,tr{{break-inside:avoid}}
 section{{border-color:#ccc}} .scroll{{overflow:visible}}
 .big b{{font-size:20px}} .big span,.about,table{{font-size:11px}} section.plain article{{padding:10px 12px}}}}
"""
