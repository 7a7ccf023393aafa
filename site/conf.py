"""Sphinx settings of the reading site; `lmbook site` fills the folder around it."""

import lmbook

project = "動かして読む言語モデル"
release = lmbook.__version__
author = "The lmbook authors"
copyright = "The lmbook authors, CC BY 4.0"
language = "ja"
html_search_language = "ja"
html_search_options = {"type": "lmbook.press.site.Splitter"}
html_show_search_summary = False  # a page cannot be fetched from a stick
html_title = project

extensions = ["myst_nb", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
suppress_warnings = ["myst.header"]  # a level may be skipped: nesting decides
exclude_patterns = ["files"]  # downloads, no pages
myst_heading_anchors = 4
nb_execution_mode = "off"
nb_merge_streams = True
nb_render_markdown_format = "gfm"  # tables in outputs
nb_code_prompt_show = "コードを見る"
nb_code_prompt_hide = "コードを隠す"
# `lmbook site` copies it out of a wheel; nothing is fetched by a reader.
mathjax_path = "tex-svg.js"

html_theme = "sphinx_book_theme"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("formulas.js", {"priority": 900})]
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "navbar_persistent": [],
    "toc_title": "このページの内容",
    "search_bar_text": "検索",
    "footer_content_items": ["extra-footer.html"],
    "extra_footer": f"The lmbook authors　文章と図は CC BY 4.0　v{release}",
}
