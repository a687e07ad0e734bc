// Package pages writes the pages of the service and serves their files: the documentation with Swagger UI, the published contract,
// security.txt, and the templates, styles and policies of all pages. It reads cookies only for the username. No page has inline scripts or styles.
//
// Templates are in html/, and the files that pages load in assets/ and swagger/, all in the binary. layout.html and page.css are common to
// all pages. page.js shows times in the zone of the browser. Errors of windows are pages, and so are those of forms with ShowErrors, which
// sets the link of such a page:
//
//	request --> ShowErrors --> handler --> a Page --> Render --> html/NAME.html
//	                              '--> an error --> WriteError --> html/error.html, with the id of the request
package pages
