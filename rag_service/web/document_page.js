/**
 * The page of one document (`/documents/{id}`): brings the cited passage into view.
 *
 * In: the page as the service wrote it. Out: its scroll position. Must not: change its content.
 */

document.getElementById("passage")?.scrollIntoView({ block: "center" });
