// Package pages writes the pages of the service, and has the files that they need: the documentation with Swagger UI, the published
// contract, security.txt, and the templates, styles and policies of all pages.
//
// It never touches the store, and begins or ends no session: package signin does that, with the pages of this package. It reads the
// cookies of a request only to say on a page who is signed in. No page contains inline scripts or styles.
//
// Templates are in html/, and what a page loads is in assets/ and swagger/, all of it in the binary. layout.html is what all pages have,
// and page.css how they look. page.js shows times in the zone of the browser. A handler fills in a Page, and Pages adds what all pages
// show. The server asks WriteError before it writes an error as JSON: errors of windows are pages, and those of forms whose route has
// ShowErrors in front, which says where such a page leads on to:
//
//	request --> ShowErrors --> handler --> a Page --> Render --> html/NAME.html
//	                              '--> an error --> WriteError --> html/error.html, with the id of the request
package pages
