"""Settings of `rag-ingest`: the index's, how documents are cut, and the limits under which files and the web are read.

In: the environment and `.env`. Out: one frozen value. Must not: be read anywhere but at the entry point.
"""

from pydantic import Field, ValidationError

from ingest.loaders.options import LoadOptions, OcrOptions
from ingest.web.options import WebOptions
from rag_service.index.settings import IndexSettings, Section, explain


class ChunksSettings(Section):
    max_tokens: int = Field(
        200,
        ge=16,
        le=8192,
        description="Tokens of a chunk, counted by the embedding model's tokenizer and never more than it reads. Smaller"
        " finds more exactly, larger keeps more context. A change cuts and embeds every document anew.",
    )
    overlap_tokens: int = Field(
        0, ge=0, le=4096, description="Tokens of whole sentences that a chunk repeats from the one before it."
    )


class LoadSettings(Section):
    max_file_mb: int = Field(
        200,
        ge=1,
        le=100_000,
        description="Megabytes of one file. A larger one is not read and fails with this setting's name. Raise it for big"
        " scans or books whose size is right; RAG_LOAD__MEMORY_MB may have to follow.",
    )
    max_text_mb: int = Field(
        20,
        ge=1,
        le=1_000,
        description="Million characters of text of one document (20 are about 8,000 pages). A longer one fails with this"
        " setting's name. Raise it for logs and data dumps that are to be answered from as they are.",
    )
    max_unpacked_mb: int = Field(
        500,
        ge=1,
        le=100_000,
        description="Megabytes that an archive (DOCX, PPTX, XLSX, ODT, EPUB) unpacks to. It stops files made to fill the"
        " memory. Raise it for trusted files with many large pictures.",
    )
    max_members: int = Field(
        10_000,
        ge=10,
        le=1_000_000,
        description="Files inside an archive (DOCX, PPTX, XLSX, ODT, EPUB). Raise it for trusted books or decks with more"
        " pictures than that.",
    )
    timeout_s: float = Field(
        120.0,
        gt=0,
        le=86_400,
        description="Seconds for reading and cutting one file, time for OCR not counted. A file that takes longer is set"
        " aside until it changes. Raise it for very long PDFs on a slow machine.",
    )
    memory_mb: int = Field(
        2_048,
        ge=256,
        le=1_048_576,
        description="Megabytes of memory for a process that reads files. A file that needs more is set aside until it"
        " changes. Raise it for large spreadsheets and books, lower it where memory is short.",
    )
    processes: int = Field(
        0,
        ge=0,
        le=256,
        description="Processes that read files at the same time; 0 goes by the cores. Lower it to leave cores or memory to"
        " others.",
    )


class OcrSettings(Section):
    enabled: bool = Field(
        True,
        description="Read image files, and pages that have no text, by OCR (some seconds a page on a CPU). false"
        " leaves such pages out and reports them.",
    )
    max_pages: int = Field(
        200,
        ge=1,
        le=100_000,
        description="Pages of one file read by OCR. Those beyond are reported as unread. Raise it for long scanned books.",
    )
    max_seconds: float = Field(
        300.0,
        gt=0,
        le=86_400,
        description="Seconds of OCR for one file. Pages not reached are reported as unread. Raise it on slow machines.",
    )


class WebSettings(Section):
    """For addresses named on the command line. Nothing is read from the web unless one is."""

    user_agent: str = Field(
        "rag-ingest",
        pattern=r"^[A-Za-z][\x20-\x7e]{0,199}$",
        description="How requests name themselves, to robots.txt too. Add an address where a site's owner reaches you:"
        " rag-ingest (+mailto:docs@example.com).",
    )
    max_mb: int = Field(
        50,
        ge=1,
        le=100_000,
        description="Megabytes of one document from the web, as sent and as unpacked. A larger one fails with this setting's"
        " name. Raise it for sites that you trust with large files.",
    )
    timeout_s: float = Field(
        60.0,
        gt=0,
        le=86_400,
        description="Seconds for one document from the web, redirects and robots.txt included. Raise it for slow sites and"
        " large files.",
    )
    connect_timeout_s: float = Field(
        10.0, gt=0, le=600, description="Seconds to wait for a connection to a site. Raise it on very slow lines."
    )
    max_redirects: int = Field(
        5,
        ge=0,
        le=20,
        description="Redirects followed for one document; every one passes all checks. Rarely to change.",
    )
    max_pages: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        description="Pages taken from one sitemap; it is reported that there are more. Raise it for large sites.",
    )
    delay_s: float = Field(
        0.5,
        ge=0,
        le=600,
        description="Seconds between two requests to one host; a longer Crawl-delay of its robots.txt goes first, up to 30."
        " Raise it when a site answers 429, set 0 for a server of your own.",
    )
    respect_robots: bool = Field(
        True, description="Leave out what a site's robots.txt asks not to read. Set false for sites of your own only."
    )
    allow_private: bool = Field(
        False,
        description="Let addresses on this machine and in private networks be read, for a wiki of your own network. Leave it"
        " off where others choose the addresses: services that trust their network would answer them.",
    )


class WatchSettings(Section):
    """For `rag-ingest run --watch`."""

    settle_s: float = Field(
        2.0,
        ge=0.1,
        le=3600,
        description="Seconds without a further change before changed files are read. Raise it where files are written slowly"
        " or many come at once.",
    )
    full_run_s: float = Field(
        3600.0,
        ge=10,
        le=604_800,
        description="Seconds between two runs over everything, which find what the system did not tell of, and read web"
        " pages again.",
    )
    poll: bool = Field(
        False,
        description="Look at all files again and again instead of being told of changes. Set it for network drives and"
        " mounts of containers, which tell nothing, or when the system's limit on watches is reached.",
    )


class IngestSettings(IndexSettings):
    """Everything `rag-ingest` can be told."""

    chunks: ChunksSettings = ChunksSettings()
    load: LoadSettings = LoadSettings()
    ocr: OcrSettings = OcrSettings()
    web: WebSettings = WebSettings()
    watch: WatchSettings = WatchSettings()

    @property
    def load_options(self) -> LoadOptions:
        """What the loaders are told."""
        return LoadOptions(
            ocr=OcrOptions(self.ocr.enabled, self.ocr.max_pages, self.ocr.max_seconds),
            max_file_bytes=self.load.max_file_mb * 1_000_000,
            max_text_chars=self.load.max_text_mb * 1_000_000,
            max_unpacked_bytes=self.load.max_unpacked_mb * 1_000_000,
            max_members=self.load.max_members,
        )

    @property
    def web_options(self) -> WebOptions:
        """What fetching from the web is told."""
        values = self.web.model_dump(exclude={"max_mb"})
        return WebOptions(**values, max_bytes=self.web.max_mb * 1_000_000)


def load_settings() -> IngestSettings:
    """Read the environment. Raises InvalidSettings that names each wrong setting."""
    try:
        return IngestSettings()
    except ValidationError as error:
        raise explain(error) from error
