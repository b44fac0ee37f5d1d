"""The pages that people use with a browser: plain files of this package, and how they are served.

`assets/` holds a folder for each page, the page at `/` to talk and the one at `/video` to steer a video, and one for
what both use. Nothing is built, and nothing comes from elsewhere.
"""

from __future__ import annotations

from duplex_trio.serving.web.static import Section, page_response, section_of

__all__ = ["Section", "page_response", "section_of"]
