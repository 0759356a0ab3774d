"""Names of static files hold the hash of what is in them, and so do the names by which our modules import each other.

Else a browser could run a page's new module with an old one that it still has, for a minute after every upgrade.
"""

from whitenoise.storage import CompressedManifestStaticFilesStorage

_IMPORT = r"""(?P<matched>(?P<what>\bimport\b[^'"();]*)['"](?P<url>\./[\w.-]+)['"])"""


class HashedModules(CompressedManifestStaticFilesStorage):
    patterns = (*CompressedManifestStaticFilesStorage.patterns, ("live/*.js", ((_IMPORT, '%(what)s"%(url)s"'),)))
