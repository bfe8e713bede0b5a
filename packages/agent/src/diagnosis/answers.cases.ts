/** An answer as a probe has it: status, headers, and the beginning of the body. */
export interface Answer {
  readonly from: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const html = { "Content-Type": "text/html" };
const cf = { Server: "cloudflare", "CF-RAY": "8f1c0a2b3c4d5e6f-FRA", ...html };
const cfText = { ...cf, "Content-Type": "text/plain" };
const front = { Server: "CloudFront", "X-Cache": "Error from cloudfront", ...html };
const elb = { Server: "awselb/2.0", ...html };
const azure = { "X-Azure-Ref": "20261128T220000Z-r1", ...html };

type Block = readonly [code: string, status: number, headers: Answer["headers"], body: string];

/** Answers of products, reduced to what identifies them (the sources stand with the traits), and their diagnosis. */
export const blockPages: readonly Block[] = [
  ["challenge:cloudflare:", 403, { ...cf, "cf-mitigated": "challenge" }, ""],
  ["challenge:cloudflare:", 429, { ...cf, "Cf-Mitigated": "challenge", "Retry-After": "30" }, "<html>"],
  ["challenge:cloudflare:", 503, cf, "<!DOCTYPE html><html><head><title>Just a moment...</title>"],
  ["blocked:cloudflare:1020", 403, cfText, "error code: 1020"],
  ["blocked:cloudflare:1009", 403, cfText, "error code: 1009\n"],
  ["blocked:cloudflare:", 403, cf, "<title>Access denied | www.example.com used Cloudflare to restrict access</title>"],
  ["blocked:cloudflare:", 403, cf, "<title>Attention Required! | Cloudflare</title>"],
  ["rate_limited:cloudflare:10", 429, { ...cfText, "Retry-After": "10" }, "error code: 1015"],
  ["rate_limited:cloudflare:", 429, cf, "<title>Access denied | a.org used Cloudflare to restrict access</title>"],
  ...[520, 521, 522, 523, 524].map((status): Block => [`origin_unreachable:cloudflare:${status}`, status, cf, ""]),
  ["origin_unreachable:cloudflare:502", 502, cfText, "error code: 502"],
  ["origin_unreachable:cloudflare:504", 504, cf, "<title>example.com | 504: Gateway time-out</title>"],
  ["origin_unreachable:cloudflare:1016", 530, cfText, "error code: 1016"],
  ["origin_unreachable:cloudflare:1033", 530, cfText, "error code: 1033"],
  ["origin_unreachable:cloudflare:", 530, cf, "<title>Something else | Cloudflare</title>"],
  ["tls:cloudflare:handshake", 525, cfText, "error code: 525"],
  ["tls:cloudflare:certificate", 526, cfText, "error code: 526"],
  [
    "blocked:akamai:",
    403,
    { Server: "AkamaiGHost", ...html },
    "<HTML><HEAD>\n<TITLE>Access Denied</TITLE>\n</HEAD><BODY>\n<H1>Access Denied</H1>\n" +
      'You don\'t have permission to access "http&#58;&#47;&#47;a&#46;org&#47;" on this server.<P>\n' +
      "Reference&#32;&#35;18&#46;4d7a1602&#46;1732829400&#46;1f2e3d4c",
  ],
  [
    "blocked:akamai:",
    403,
    html,
    "<TITLE>Access Denied</TITLE> You don't have permission to access <P>https&#58; errors.edgesuite.net/18.4d7a1602",
  ],
  [
    "challenge:akamai:",
    428,
    { "Content-Type": "application/json" },
    '{"sec-cp-challenge": "true","provider":"crypto"}',
  ],
  [
    "origin_unreachable:akamai:",
    503,
    { Server: "AkamaiGHost", ...html },
    "An error occurred.<p>\nReference&#32;&#35;97",
  ],
  [
    "blocked:imperva:",
    403,
    { "X-Iinfo": "9-1-0 0NNN", "Set-Cookie": "visid_incap_1=abc", ...html },
    '<html style="height:100%"><iframe src="/_Incapsula_Resource?SWUDNSAI=31&xinfo=9&incident_id=9-1&edet=15">',
  ],
  [
    "blocked:imperva:",
    200,
    { "X-Iinfo": "9-1-0 0NNN", ...html },
    "<html><body>Request unsuccessful. Incapsula incident ID: 9-1</body></html>",
  ],
  ["challenge:aws-waf:", 202, { "x-amzn-waf-action": "challenge", Server: "CloudFront" }, ""],
  ["challenge:aws-waf:", 405, { "x-amzn-waf-action": "captcha", ...html }, "<html>Human Verification"],
  [
    "blocked:aws-waf:",
    403,
    front,
    "<H1>403 ERROR</H1>\n<H2>The request could not be satisfied.</H2>\nRequest blocked.",
  ],
  ["blocked:aws-waf:", 403, elb, "<html>\r\n<head><title>403 Forbidden</title></head>\r\n<center><h1>403 Forbidden"],
  [
    "blocked:cloudfront:",
    403,
    front,
    "The request could not be satisfied. The distribution is configured to block access from your country.",
  ],
  ["origin_unreachable:cloudfront:", 502, front, "<H2>The request could not be satisfied.</H2>"],
  [
    "origin_unreachable:cloudfront:dns",
    502,
    front,
    "The request could not be satisfied. CloudFront wasn't able to resolve the origin domain name.",
  ],
  ["origin_unreachable:aws-elb:none", 503, elb, "<head><title>503 Service Temporarily Unavailable</title></head>"],
  ["origin_unreachable:aws-elb:timeout", 504, elb, "<head><title>504 Gateway Time-out</title></head>"],
  [
    "origin_unreachable:fastly:",
    503,
    { "X-Served-By": "cache-fra-1", ...html },
    "<title>503 Backend is unhealthy</title><h3>Guru Mediation:</h3><h3>Guru Meditation:</h3>",
  ],
  ["blocked:sucuri:", 403, { Server: "Sucuri/Cloudproxy", "X-Sucuri-ID": "1", "X-Sucuri-Block": "BLK" }, ""],
  ["blocked:sucuri:", 403, html, "<title>Sucuri WebSite Firewall - Access Denied</title>"],
  [
    "challenge:datadome:",
    403,
    { "X-DataDome": "protected", "Set-Cookie": "datadome=abc; Path=/", ...html },
    "<script>var dd={'host':'geo.captcha-delivery.com'}</script>",
  ],
  ["challenge:perimeterx:", 403, html, "<script>window._pxAppId = 'PX1';</script><div id=\"px-captcha\">"],
  [
    "challenge:perimeterx:",
    403,
    { "Content-Type": "application/json" },
    '{"appId":"PX1","jsClientSrc":"/x/init.js","blockScript":"/x/captcha.js"}',
  ],
  ["blocked:azure-front-door:", 403, azure, "<h2>The request is blocked.</h2>"],
  ["origin_unreachable:azure-front-door:", 503, azure, "<h2>Our services aren't available right now</h2>"],
  [
    "blocked:azure-app-gateway:",
    403,
    { Server: "Microsoft-Azure-Application-Gateway/v2", ...html },
    "<head><title>403 Forbidden</title></head>",
  ],
  ["challenge:vercel:", 429, { Server: "Vercel", "x-vercel-mitigated": "challenge", ...html }, ""],
  ["blocked:vercel:", 403, { Server: "Vercel", "x-vercel-mitigated": "deny" }, "Forbidden"],
  [
    "origin_unreachable:vercel:timeout",
    504,
    { Server: "Vercel", "x-vercel-error": "FUNCTION_INVOCATION_TIMEOUT" },
    "An error occurred with your deployment",
  ],
  ["rate_limited:netlify:", 429, { Server: "Netlify" }, ""],
  ["challenge:kasada:", 429, { "x-kpsdk-ct": "0abc" }, "<script>window.KPSDK={}"],
  ["challenge:ddos-guard:", 403, { Server: "ddos-guard", ...html }, "<title>DDoS-Guard</title>"],
  [
    "blocked:f5:",
    200,
    html,
    "<title>Request Rejected</title>The requested URL was rejected. Please consult with your administrator.<br>" +
      "Your support ID is: 123",
  ],
  ["blocked:fortiweb:", 403, html, "<title>Web Page Blocked!</title> Attack ID: 20000051"],
  ["blocked:modsecurity:", 406, html, "This error was generated by Mod_Security."],
  ["blocked:wordfence:", 503, html, "Your access to this site has been limited. Generated by Wordfence"],
  [
    "origin_unreachable:nginx:refused",
    502,
    { Server: "nginx/1.22.1", ...html },
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n" +
      "<hr><center>nginx/1.22.1</center>\r\n",
  ],
  [
    "origin_unreachable:haproxy:none",
    503,
    html,
    "<html><body><h1>503 Service Unavailable</h1>\nNo server is available to handle this request.\n</body></html>",
  ],
  [
    "origin_unreachable:apache:invalid",
    502,
    { Server: "Apache", ...html },
    "<h1>Bad Gateway</h1>\n<p>The proxy server received an invalid\r\nresponse from an upstream server.",
  ],
  [
    "origin_unreachable:envoy:refused",
    503,
    { server: "envoy" },
    "upstream connect error or disconnect/reset before headers. reset reason: connection failure",
  ],
  ["origin_unreachable:envoy:none", 503, { server: "istio-envoy" }, "no healthy upstream"],
  ["origin_unreachable:varnish:", 503, html, "<h1>Error 503 Backend fetch failed</h1><h3>Guru Meditation:</h3>"],
  ["origin_unreachable:heroku:", 503, html, '<iframe src="//www.herokucdn.com/error-pages/application-error.html">'],
  [
    "origin_unreachable:google:",
    502,
    html,
    "<h2>The server encountered a temporary error and could not complete your request.<p>Please try again.",
  ],
  ["rate_limited::120", 429, { "Retry-After": "120" }, "Too Many Requests"],
  ["rate_limited::", 429, { "Retry-After": "Sat, 28 Nov 2026 22:00:00 GMT" }, '{"error":"slow down"}'],
];

const reasons: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  406: "Not Acceptable",
  408: "Request Timeout",
  410: "Gone",
  413: "Content Too Large",
  418: "I'm a teapot",
  422: "Unprocessable Content",
  451: "Unavailable For Legal Reasons",
  500: "Internal Server Error",
  501: "Not Implemented",
  503: "Service Unavailable",
  507: "Insufficient Storage",
};

type Page = readonly [headers: Answer["headers"], body: (status: number, reason: string) => string];

const json = { "Content-Type": "application/json" };

/** Default error pages of servers and frameworks, in the form in which they write them. */
const ordinary: Readonly<Record<string, Page>> = {
  nginx: [
    { Server: "nginx/1.26.0", ...html },
    (status, reason) =>
      `<html>\r\n<head><title>${status} ${reason}</title></head>\r\n<body>\r\n<center><h1>${status} ${reason}</h1>` +
      "</center>\r\n<hr><center>nginx/1.26.0</center>\r\n",
  ],
  openresty: [
    { Server: "openresty", ...html },
    (status, reason) => `<html>\r\n<head><title>${status} ${reason}</title></head>\r\n<hr><center>openresty</center>`,
  ],
  apache: [
    { Server: "Apache/2.4.62 (Debian)", ...html },
    (status, reason) =>
      `<!DOCTYPE HTML PUBLIC "-//IETF//DTD HTML 2.0//EN">\n<html><head>\n<title>${status} ${reason}</title>\n</head>` +
      `<body>\n<h1>${reason}</h1>\n<p>You don't have permission to access this resource.</p>\n<hr>\n` +
      "<address>Apache/2.4.62 (Debian) Server at a.org Port 443</address>\n",
  ],
  lighttpd: [
    { Server: "lighttpd/1.4.69", ...html },
    (status, reason) =>
      `<?xml version="1.0"?>\n<head>\n  <title>${status} ${reason}</title>\n </head>\n<h1>${reason}</h1>`,
  ],
  iis: [
    { Server: "Microsoft-IIS/10.0", "X-Powered-By": "ASP.NET", ...html },
    (status, reason) =>
      `<title>${status} - ${reason}: Access is denied.</title><div id="header"><h1>Server Error</h1></div>` +
      "<h3>You do not have permission to view this directory or page using the credentials that you supplied.</h3>",
  ],
  tomcat: [
    html,
    (status, reason) =>
      `<!doctype html><html lang="en"><head><title>HTTP Status ${status} – ${reason}</title></head>` +
      `<body><h1>HTTP Status ${status} – ${reason}</h1><h3>Apache Tomcat/10.1.24</h3></body></html>`,
  ],
  jetty: [
    { Server: "Jetty(12.0.9)", ...html },
    (status, reason) =>
      `<title>Error ${status} ${reason}</title><h2>HTTP ERROR ${status} ${reason}</h2><hr/>Powered by Jetty`,
  ],
  haproxy: [
    html,
    (status, reason) => `<html><body><h1>${status} ${reason}</h1>\nRequest forbidden by administrative rules.\n`,
  ],
  caddy: [{ Server: "Caddy" }, () => ""],
  traefik: [{ "Content-Type": "text/plain; charset=utf-8" }, (_, reason) => reason],
  go: [{ "Content-Type": "text/plain; charset=utf-8" }, (status) => `${status} page not found\n`],
  express: [
    { "X-Powered-By": "Express", ...html },
    (_, reason) => `<!DOCTYPE html>\n<head>\n<title>Error</title>\n</head>\n<body>\n<pre>${reason}</pre>\n`,
  ],
  django: [html, (status, reason) => `<!doctype html>\n<title>${reason}</title>\n<h1>${reason} (${status})</h1>`],
  "django csrf": [
    html,
    (status) => `<title>${status} Forbidden</title><h1>Forbidden</h1><p>CSRF verification failed. Request aborted.</p>`,
  ],
  werkzeug: [
    { Server: "Werkzeug/3.0.3 Python/3.12", ...html },
    (status, reason) => `<!doctype html>\n<html lang=en>\n<title>${status} ${reason}</title>\n<h1>${reason}</h1>\n`,
  ],
  fastapi: [{ server: "uvicorn", ...json }, (_, reason) => JSON.stringify({ detail: reason })],
  gunicorn: [
    { Server: "gunicorn", ...html },
    (_, reason) => `<html><head><title>${reason}</title></head><h1><p>${reason}</p></h1>`,
  ],
  rails: [
    html,
    (status) =>
      `<title>The change you wanted was rejected (${status})</title><h1>The change you wanted was rejected.</h1>`,
  ],
  laravel: [
    html,
    (status, reason) =>
      `<title>${reason}</title><div class="px-4 text-lg">${status}</div><div class="ml-4">${reason}</div>`,
  ],
  symfony: [
    html,
    (status, reason) =>
      `<title>An Error Occurred: ${reason}</title><h2>The server returned a "${status} ${reason}".</h2>`,
  ],
  spring: [
    json,
    (status, error) => JSON.stringify({ timestamp: "2026-11-28T22:00:00Z", status, error, path: "/health" }),
  ],
  "spring page": [
    html,
    (status, reason) => `<h1>Whitelabel Error Page</h1><div>(type=${reason}, status=${status}).</div>`,
  ],
  "asp.net": [
    { "Content-Type": "application/problem+json" },
    (status, title) => JSON.stringify({ type: "https://tools.ietf.org/html/rfc9110", title, status, traceId: "00-1" }),
  ],
  next: [
    { "X-Powered-By": "Next.js", ...html },
    (status) => `<title>${status}: This page could not be found.</title><h1 class="next-error-h1">${status}</h1>`,
  ],
  wordpress: [
    html,
    (_, reason) => `<title>WordPress &rsaquo; Error</title><div class="wp-die-message">${reason}</div>`,
  ],
  s3: [
    { Server: "AmazonS3", "x-amz-request-id": "7A1", "Content-Type": "application/xml" },
    () => '<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>',
  ],
  kubernetes: [json, (code, reason) => JSON.stringify({ kind: "Status", status: "Failure", reason, code })],
  keycloak: [json, (_, error) => JSON.stringify({ error, error_description: "access denied, blocked account" })],
  grafana: [json, (_, message) => JSON.stringify({ message, traceID: "", accessErrorId: "ACE1" })],
  "site of its own": [
    html,
    (status, reason) =>
      `<title>${status} | Our shop</title><p>Sorry, you do not have access: ${reason}. Solve the captcha. ` +
      "This incident has been logged with reference 18.4d7a. Blocked accounts: write to support.</p>",
  ],
};

/** Heads that proxies add to the answers of origins, which they do not make their own. */
const passing: Readonly<Record<string, Answer["headers"]>> = {
  direct: {},
  cloudflare: { Server: "cloudflare", "CF-RAY": "8f1c0a2b3c4d5e6f-FRA", "Set-Cookie": "__cf_bm=abc; path=/" },
  cloudfront: { Via: "1.1 abc.cloudfront.net (CloudFront)", "X-Cache": "Error from cloudfront" },
  fastly: { "X-Served-By": "cache-fra-1", Via: "1.1 varnish", "X-Cache": "MISS" },
  imperva: { "X-Iinfo": "9-1-1 NNNY", "X-CDN": "Imperva", "Set-Cookie": "visid_incap_1=abc" },
  azure: { "X-Azure-Ref": "20261128T220000Z-r1", "X-Cache": "CONFIG_NOCACHE" },
  datadome: { "X-DataDome": "protected", "Set-Cookie": "datadome=abc" },
};

/** Error pages that no product in between has written. */
export const errorPages: readonly Answer[] = Object.entries(ordinary).flatMap(([name, [headers, body]]) =>
  Object.entries(passing).flatMap(([proxy, added]) =>
    Object.entries(reasons).map(([status, reason]) => ({
      from: `${name}, ${proxy}`,
      status: Number(status),
      headers: { ...headers, ...added },
      body: body(Number(status), reason),
    })),
  ),
);
