import type { Trait } from "./trait.ts";

const gateway = [502, 503, 504];
const cf = "developers.cloudflare.com";
const aws = "docs.aws.amazon.com";

/** Answers of proxies that cannot reach their origin, and of limits that have a product's own form. */
export const originTraits: readonly Trait[] = [
  {
    kind: "tls",
    provider: "cloudflare",
    detail: "handshake",
    status: [525],
    headers: { server: "cloudflare" },
    source: `${cf}/support/troubleshooting/http-status-codes/cloudflare-5xx-errors/error-525`,
  },
  {
    kind: "tls",
    provider: "cloudflare",
    detail: "certificate",
    status: [526],
    headers: { server: "cloudflare" },
    source: `${cf}/support/troubleshooting/http-status-codes/cloudflare-5xx-errors/error-526`,
  },
  {
    kind: "origin_unreachable",
    provider: "cloudfront",
    detail: "dns",
    status: gateway,
    headers: { server: "cloudfront" },
    body: ["wasn't able to resolve the origin domain name"],
    source: `${aws}/AmazonCloudFront/latest/DeveloperGuide/http-502-bad-gateway.html`,
  },
  {
    kind: "origin_unreachable",
    provider: "cloudfront",
    status: gateway,
    headers: { server: "cloudfront" },
    body: ["the request could not be satisfied"],
    source: `${aws}/AmazonCloudFront/latest/DeveloperGuide/troubleshooting-response-errors.html`,
  },
  ...(
    [
      [502, "invalid", "<title>502 bad gateway</title>"],
      [503, "none", "<title>503 service temporarily unavailable</title>"],
      [504, "timeout", "<title>504 gateway time-out</title>"],
    ] as const
  ).flatMap(([status, detail, title]): Trait[] => [
    {
      kind: "origin_unreachable",
      provider: "aws-elb",
      detail,
      status: [status],
      headers: { server: "awselb/2.0" },
      body: [title],
      source: `${aws}/elasticloadbalancing/latest/application/load-balancer-troubleshooting.html`,
    },
    // nginx answers 503 for its own limits too (limit_req, limit_conn).
    ...(status === 503
      ? []
      : [
          {
            kind: "origin_unreachable" as const,
            provider: "nginx" as const,
            detail: status === 502 ? "refused" : detail,
            status: [status],
            body: [title, "<center>nginx"],
            source: "nginx.org/en/docs/http/ngx_http_proxy_module.html",
          },
        ]),
  ]),
  ...(
    [
      [502, "invalid", "the server returned an invalid or incomplete response."],
      [503, "none", "no server is available to handle this request."],
      [504, "timeout", "the server didn't respond in time."],
    ] as const
  ).map(([status, detail, text]): Trait => ({
    kind: "origin_unreachable",
    provider: "haproxy",
    detail,
    status: [status],
    body: [text],
    source: "docs.haproxy.org/3.0/configuration.html#1.3.1",
  })),
  ...(
    [
      [502, "invalid", "the proxy server received an invalid"],
      [502, "refused", "error reading from remote server"],
      [504, "timeout", "the gateway did not receive a timely response"],
    ] as const
  ).map(([status, detail, text]): Trait => ({
    kind: "origin_unreachable",
    provider: "apache",
    detail,
    status: [status],
    body: [text],
    source: "httpd.apache.org/docs/2.4/mod/mod_proxy.html",
  })),
  {
    kind: "origin_unreachable",
    provider: "envoy",
    detail: "refused",
    status: gateway,
    body: ["upstream connect error or disconnect/reset before headers"],
    source: "envoyproxy.io/docs/envoy/latest/faq/debugging/why_is_envoy_sending_internal_responses",
  },
  {
    kind: "origin_unreachable",
    provider: "envoy",
    detail: "none",
    status: [503],
    body: ["no healthy upstream"],
    source: "envoyproxy.io/docs/envoy/latest/faq/debugging/why_is_envoy_sending_internal_responses",
  },
  {
    kind: "origin_unreachable",
    provider: "envoy",
    detail: "timeout",
    status: [504],
    body: ["upstream request timeout"],
    source: "envoyproxy.io/docs/envoy/latest/faq/debugging/why_is_envoy_sending_internal_responses",
  },
  {
    kind: "origin_unreachable",
    provider: "fastly",
    status: gateway,
    headers: { "x-served-by": "cache-" },
    body: ["guru meditation"],
    source: "fastly.com/documentation/guides/debug/error-messages",
  },
  {
    kind: "origin_unreachable",
    provider: "varnish",
    status: gateway,
    body: ["guru meditation", "backend fetch failed"],
    source: "varnish-cache.org/docs/trunk/users-guide/troubleshooting.html",
  },
  {
    kind: "origin_unreachable",
    provider: "akamai",
    status: gateway,
    headers: { server: "akamaighost" },
    body: ["reference"],
    source: "techdocs.akamai.com/edge-diagnostics/docs/error-codes",
  },
  {
    kind: "origin_unreachable",
    provider: "imperva",
    status: gateway,
    headers: { "x-iinfo": "" },
    body: ["error code 20"],
    source: "docs.imperva.com/bundle/cloud-application-security/page/more/error-codes.htm",
  },
  {
    kind: "origin_unreachable",
    provider: "azure-front-door",
    status: gateway,
    headers: { "x-azure-ref": "" },
    body: ["our services aren't available right now"],
    source: "learn.microsoft.com/azure/frontdoor/troubleshoot-issues",
  },
  {
    kind: "origin_unreachable",
    provider: "azure-app-gateway",
    status: [502, 504],
    headers: { server: "microsoft-azure-application-gateway" },
    source: "learn.microsoft.com/azure/application-gateway/application-gateway-troubleshooting-502",
  },
  {
    kind: "origin_unreachable",
    provider: "google",
    status: [502],
    body: ["the server encountered a temporary error and could not complete your request"],
    headers: { "content-type": "text/html" },
    source: "cloud.google.com/load-balancing/docs/https/troubleshooting-ext-https-lbs",
  },
  {
    kind: "origin_unreachable",
    provider: "heroku",
    status: [503],
    body: ["herokucdn.com/error-pages/application-error.html"],
    source: "devcenter.heroku.com/articles/error-codes",
  },
  {
    kind: "origin_unreachable",
    provider: "railway",
    status: [502],
    headers: { server: "railway" },
    body: ["application failed to respond"],
    source: "docs.railway.com/reference/errors/application-failed-to-respond",
  },
  {
    kind: "origin_unreachable",
    provider: "sucuri",
    status: gateway,
    headers: { server: "sucuri/cloudproxy" },
    body: ["back-end server"],
    source: "docs.sucuri.net/website-firewall/troubleshooting",
  },
  {
    kind: "origin_unreachable",
    provider: "vercel",
    detail: "timeout",
    status: [504],
    headers: { "x-vercel-error": "_timeout" },
    source: "vercel.com/docs/errors",
  },
  {
    kind: "origin_unreachable",
    provider: "vercel",
    status: gateway,
    headers: { "x-vercel-error": "router_" },
    source: "vercel.com/docs/errors",
  },
  {
    kind: "rate_limited",
    provider: "netlify",
    status: [429],
    headers: { server: "netlify" },
    source: "docs.netlify.com/manage/security/secure-access-to-sites/rate-limiting",
  },
];
