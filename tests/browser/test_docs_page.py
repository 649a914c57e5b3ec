"""The documentation of the API at /docs works under the service's own content security policy, with no other host."""

from playwright.sync_api import BrowserContext, expect

from tests.browser.watch import Watch


def test_the_documentation_shows_the_routes(context: BrowserContext, page_url: str, watch: Watch) -> None:
    page = context.new_page()
    watch.follow(page)
    page.goto(f"{page_url}docs")
    expect(page.get_by_role("heading", name="rag-service")).to_be_visible()
    page.locator("#operations-answers-rag_query_rag_query_post button").first.click()
    expect(page.get_by_text("Answer a question from the documents").first).to_be_visible()
