"""The page that starts, steers and plays videos: plain files of this package, and how they are served.

`assets/` holds one page, its style and its ES modules; nothing is built, and nothing comes from elsewhere.
"""

from __future__ import annotations

from duplex_trio.serving.web.static import is_page_path, page_response

__all__ = ["is_page_path", "page_response"]
