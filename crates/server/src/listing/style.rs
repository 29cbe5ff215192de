//! The style of listings: light and dark, from phones to wide screens. A theme can set the custom properties, or override
//! the rest.

/// The style, which content security policies name by its hash.
pub(crate) const STYLE: &str = "\
:root{color-scheme:light dark;--text:#1a1c1e;--dim:#5c6166;--line:#d9dde1;--link:#0b57a4;--back:#fff;--mark:#f3f5f7}\
@media(prefers-color-scheme:dark){:root{--text:#e4e6e8;--dim:#9aa1a8;--line:#363b40;--link:#7db7f5;--back:#15181b;\
--mark:#20252a}}\
*{box-sizing:border-box}\
body{font:16px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back);max-width:60rem;margin:0 auto;\
padding:1rem}\
a{color:var(--link);text-decoration:none}a:hover{text-decoration:underline}\
h1{font-size:1.25rem;margin:.5rem 0 1rem;overflow-wrap:anywhere}\
form{display:flex;flex-wrap:wrap;gap:.5rem;margin:0 0 1rem}\
input,button{font:inherit;color:inherit;background:var(--mark);border:1px solid var(--line);border-radius:.3rem;\
padding:.3rem .6rem}\
input[type=search]{flex:1 1 10rem;min-width:0;max-width:24rem}\
.list{border-collapse:collapse;width:100%}\
.list th{text-align:left;font-weight:600;white-space:nowrap}\
.list th,.list td{padding:.35rem .5rem;border-bottom:1px solid var(--line);vertical-align:top}\
.list tbody tr:hover{background:var(--mark)}\
.list td:first-child{overflow-wrap:anywhere;width:100%}\
.list .n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
.list .d{white-space:nowrap;font-variant-numeric:tabular-nums}\
td.n,td.d,.note{color:var(--dim)}\
.pages{display:flex;flex-wrap:wrap;gap:.25rem 1rem}\
.readme{margin-top:2rem;border:1px solid var(--line);border-radius:.5rem;padding:0 1rem 1rem;overflow-wrap:anywhere}\
.readme h2:first-child{font-size:1rem;color:var(--dim);margin:.75rem 0}\
.readme img{max-width:100%;height:auto}\
.readme pre{overflow-x:auto;background:var(--mark);padding:.75rem;border-radius:.3rem}\
.readme pre.text{white-space:pre-wrap;background:none;padding:0}\
.readme table{display:block;overflow-x:auto;border-collapse:collapse}\
.readme th,.readme td{border:1px solid var(--line);padding:.25rem .5rem}\
.readme blockquote{margin:1rem 0;padding-left:1rem;border-left:.25rem solid var(--line);color:var(--dim)}\
@media(max-width:36rem){body{padding:.75rem}.list th,.list td{padding:.35rem .25rem}.list .t{display:none}}";
