/** A page or a dump in the form in which a framework writes it, with one secret in it. */
export interface Format {
  readonly from: string;
  /** The names under which the secret may stand. */
  readonly names: readonly string[];
  page(name: string, secret: string): string;
  /** What a reader needs and must still find. */
  readonly keep: readonly string[];
}

const env = ["DB_PASSWORD", "MYSQL_PASS", "STRIPE_KEY", "SMTP_AUTH", "GITHUB_PAT", "APP_SECRET", "JWT", "REDIS_PWD"];
const snake = ["password", "api_key", "access_token", "csrf_token", "session_id", "refresh", "auth", "sid", "jwt"];
const camel = ["apiKey", "clientSecret", "refreshToken", "dbPass", "sessionId", "authKey", "bearer", "key"];
const header = ["Authorization", "X-Api-Key", "Cookie", "X-Auth-Token", "X-CSRF-Token", "X-Amz-Security-Token"];
const glued = ["PGPASSWORD", "csrfmiddlewaretoken", "PHPSESSID", "apikey", "accesstoken", "JSESSIONID"];

const entry = (from: string, names: readonly string[], keep: string[], page: Format["page"]): Format => ({
  from,
  names,
  page,
  keep,
});

/** All text is ours; the forms are those of the programs that are named. */
export const formats: readonly Format[] = [
  entry("environment", [...env, ...glued], ["APP_ENV=production", "DB_HOST=db.internal"], (name, secret) =>
    ["APP_ENV=production", "DB_HOST=db.internal", `${name}=${secret}`, "TZ=UTC"].join("\n"),
  ),
  entry("shell script", env, ["set -e", "exec server"], (name, secret) =>
    ["set -e", `export ${name}='${secret}'`, "exec server"].join("\n"),
  ),
  entry("Dockerfile", env, ["FROM node:20", "CMD"], (name, secret) =>
    ["FROM node:20", `ENV ${name}=${secret}`, 'CMD ["node", "app.js"]'].join("\n"),
  ),
  entry(
    "command line",
    snake.slice(0, 3),
    ["deploy failed", "--region eu-1"],
    (name, secret) => `deploy failed: /bin/deploy --region eu-1 --${name.replaceAll("_", "-")} ${secret} --verbose`,
  ),
  entry(
    "Django debug page",
    [...snake, ...env],
    ["OperationalError at /orders/", "orders.views.list"],
    (name, secret) =>
      `<h1>OperationalError at /orders/</h1><table class="vars"><tbody><tr><td>view</td><td class="code"><pre>` +
      `&#x27;orders.views.list&#x27;</pre></td></tr><tr><td>${name}</td><td class="code"><pre>&#x27;${secret}&#x27;` +
      `</pre></td></tr></tbody></table>`,
  ),
  entry(
    "Django settings",
    env,
    ["ALLOWED_HOSTS", "example.org"],
    (name, secret) =>
      `<tr><td>ALLOWED_HOSTS</td><td class="code"><pre>[&#x27;example.org&#x27;]</pre></td></tr>` +
      `<tr>\n  <td>${name}</td>\n  <td class="code"><pre>&#39;${secret}&#39;</pre></td>\n</tr>`,
  ),
  entry(
    "Django form",
    glued.slice(1, 2),
    ["Forbidden (403)", "<form"],
    (name, secret) =>
      `<h1>Forbidden (403)</h1><form method="post"><input type="hidden" name="${name}" value="${secret}"></form>`,
  ),
  entry(
    "hidden field, value first",
    snake,
    ['<form action="/login"', "Sign in"],
    (name, secret) =>
      `<form action="/login"><input value="${secret}" type="hidden" name="${name}"/><button>Sign in</button></form>`,
  ),
  entry(
    "Rails meta tag",
    ["csrf-token", "authenticity_token"],
    ["We're sorry"],
    (name, secret) => `<head><meta name="${name}" content="${secret}" /></head><body><p>We're sorry</p></body>`,
  ),
  entry(
    "Rails parameters",
    [...snake, ...glued],
    ["ActionController", '"name"=>"Ann"'],
    (name, secret) =>
      `ActionController::BadRequest\n  Parameters: {"name"=>"Ann", "user"=>{"${name}"=>"${secret}", "page"=>"2"}}`,
  ),
  entry(
    "Ruby inspect",
    snake,
    ["#<Client:0x0000", "@host="],
    (name, secret) => `#<Client:0x00007f1c @host="db", @${name}="${secret}", @port=5432>`,
  ),
  entry(
    "Ruby symbols",
    snake,
    ["KeyError", "adapter"],
    (name, secret) => `KeyError: {:adapter=>"mysql2", :${name}=>"${secret}", :pool=>5}`,
  ),
  entry(
    "Laravel error page",
    env,
    ["Illuminate\\Database\\QueryException", "APP_NAME"],
    (name, secret) =>
      `<h2>Illuminate\\Database\\QueryException</h2><dl><dt>APP_NAME</dt><dd>Shop</dd><dt>${name}</dt>` +
      `<dd><pre>${secret}</pre></dd></dl>`,
  ),
  entry("Laravel JSON", camel, ["Illuminate", "Connection.php"], (name, secret) =>
    JSON.stringify({ exception: "Illuminate\\QueryException", file: "Connection.php", context: { [name]: secret } }),
  ),
  entry(
    "Laravel SQL",
    ["password", "remember_token"],
    ["SQLSTATE[23000]", "insert into"],
    (name, secret) =>
      `SQLSTATE[23000]: duplicate (SQL: insert into \`users\` (\`name\`, \`${name}\`) values (Ann, ${secret}))`,
  ),
  entry(
    "Symfony dump",
    camel,
    ["App\\Entity\\User", "email"],
    (name, secret) => `App\\Entity\\User {#412\n  +email: "a@example.org"\n  -${name}: "${secret}"\n}`,
  ),
  entry(
    "Symfony HTML dump",
    camel,
    ["sf-dump-note", "User"],
    (name, secret) =>
      `<pre class=sf-dump><span class=sf-dump-note>User</span> {"<span class=sf-dump-key>${name}</span>" => ` +
      `"<span class=sf-dump-str title="9 characters">${secret}</span>"}</pre>`,
  ),
  entry(
    "PHP print_r",
    [...snake, ...env],
    ["[host] => db"],
    (name, secret) => `Array\n(\n    [host] => db\n    [${name}] => ${secret}\n)`,
  ),
  entry(
    "PHP var_dump",
    snake,
    ["array(2)", '["host"]=>'],
    (name, secret) =>
      `array(2) {\n  ["host"]=>\n  string(2) "db"\n  ["${name}"]=>\n  string(${secret.length}) "${secret}"\n}`,
  ),
  entry(
    "PHP var_export",
    snake,
    ["'driver' => 'pgsql'"],
    (name, secret) => `array (\n  'driver' => 'pgsql',\n  '${name}' => '${secret}',\n)`,
  ),
  entry(
    "PHP source",
    snake,
    ["Parse error", "$config['host']"],
    (name, secret) => `Parse error in config.php on line 3\n$config['host'] = 'db';\n$config['${name}'] = '${secret}';`,
  ),
  entry(
    "PHP stack trace",
    ["x"],
    ["PDOException", "/srv/app/db.php(12)"],
    (_name, secret) =>
      `PDOException: refused\n#0 /srv/app/db.php(12): PDO->__construct('host=db', 'root', '${secret}')`,
  ),
  entry(
    "PHP stack trace of a login",
    ["x"],
    ["Auth.php(7)", "{main}"],
    (_name, secret) => `#0 Auth.php(7): Auth->login('ann', '${secret}')\n#1 {main}`,
  ),
  entry(
    "phpinfo",
    [...env, ...glued],
    ["PHP Version 8.2.1", "SERVER_NAME"],
    (name, secret) =>
      `<h1 class="p">PHP Version 8.2.1</h1><table><tr><td class="e">SERVER_NAME </td><td class="v">shop </td></tr>` +
      `<tr><td class="e">${name} </td><td class="v">${secret} </td></tr></table>`,
  ),
  entry(
    "phpinfo superglobals",
    env,
    ["_SERVER", "nginx"],
    (name, secret) =>
      `<tr><td class="e">$_SERVER['SERVER_SOFTWARE']</td><td class="v">nginx</td></tr>` +
      `<tr><td class="e">$_ENV['${name}']</td><td class="v">${secret}</td></tr>`,
  ),
  entry(
    "phpinfo text",
    env,
    ["PHP Version => 8.2.1"],
    (name, secret) => `PHP Version => 8.2.1\n${name} => ${secret}\nUSER => www`,
  ),
  entry("Spring error", camel, ["Internal Server Error", "/orders"], (name, secret) =>
    JSON.stringify({ status: 500, error: "Internal Server Error", path: "/orders", details: { [name]: secret } }),
  ),
  entry(
    "Spring actuator",
    ["spring.datasource.password", "app.api-key", "jwt.secret"],
    ["server.port"],
    (name, secret) =>
      JSON.stringify({ properties: { "server.port": { value: 8080 }, [name]: { value: secret, origin: "env" } } }),
  ),
  entry(
    "Java properties",
    ["spring.datasource.password", "mail.smtp.pass", "api.key"],
    ["server.port=80"],
    (name, secret) => `server.port=80\n${name}=${secret}\nlogging.level=INFO`,
  ),
  entry(
    "Java toString",
    camel,
    ["LoginRequest", "user=ann"],
    (name, secret) => `java.lang.IllegalStateException: LoginRequest(user=ann, ${name}=${secret}, remember=false)`,
  ),
  entry(
    "Tomcat",
    ["token", "sid", "api_key"],
    ["HTTP Status 500", "Apache Tomcat/9"],
    (name, secret) =>
      `<h1>HTTP Status 500</h1><p>bad request to /a?id=4&amp;${name}=${secret}&amp;page=2</p><i>Apache Tomcat/9</i>`,
  ),
  entry(
    "JDBC",
    ["password", "user_password"],
    ["Cannot connect", "jdbc:mysql://db:3306/shop"],
    (name, secret) => `Cannot connect: jdbc:mysql://db:3306/shop?user=shop&${name}=${secret}`,
  ),
  entry(
    "Express",
    ["token", "key", "session", "code"],
    ["Cannot GET /reset"],
    (name, secret) => `<pre>Cannot GET /reset?user=4&amp;${name}=${encodeURIComponent(secret)}</pre>`,
  ),
  entry(
    "Node inspect",
    camel,
    ["AxiosError", "baseURL: 'https://api.example.org'"],
    (name, secret) =>
      `AxiosError: 401 {\n  baseURL: 'https://api.example.org',\n  ${name}: '${secret}',\n  timeout: 1000\n}`,
  ),
  entry(
    "Node headers",
    ["authorization", "x-api-key", "cookie"],
    ["'content-type': 'application/json'"],
    (name, secret) => `headers: { 'content-type': 'application/json', '${name}': '${secret}', host: 'a' }`,
  ),
  entry(
    "Next.js data",
    camel,
    ["__NEXT_DATA__", "/500"],
    (name, secret) =>
      `<script id="__NEXT_DATA__" type="text/json">${JSON.stringify({ p: "/500", x: { [name]: secret } })}</script>`,
  ),
  entry("JSON in JSON", snake, ["upstream", "502"], (name, secret) =>
    JSON.stringify({ code: "502", upstream: JSON.stringify({ user: "ann", [name]: secret }) }),
  ),
  entry("pretty JSON", camel, ['"user": "ann"'], (name, secret) =>
    JSON.stringify({ user: "ann", [name]: secret, page: 1 }, null, 2),
  ),
  entry("JSON list", ["tokens", "passwords", "api_keys"], ['"page":2'], (name, secret) =>
    JSON.stringify({ [name]: ["first-1a2b3c4d", secret], page: 2 }),
  ),
  entry("JSON object under a secret name", ["credentials", "auth", "session"], ["invalid"], (name, secret) =>
    JSON.stringify({ message: "invalid", [name]: { kind: "x", inner: { material: secret } }, page: 2 }),
  ),
  entry("name and value", env, ["EnvVar", "valueFrom"], (name, secret) =>
    JSON.stringify({ kind: "EnvVar", name, value: secret, valueFrom: null }),
  ),
  entry("value and name", env, ["EnvVar"], (name, secret) => JSON.stringify({ kind: "EnvVar", value: secret, name })),
  entry("GraphQL", camel, ["Variable", "INTERNAL_SERVER_ERROR"], (name, secret) =>
    JSON.stringify({
      errors: [{ message: `Variable "$input" got invalid value { ${name}: "${secret}" }` }],
      code: "INTERNAL_SERVER_ERROR",
    }),
  ),
  entry("GraphQL query", camel, ["Syntax Error"], (name, secret) =>
    JSON.stringify({ message: "Syntax Error", query: `mutation { signIn(user: "ann", ${name}: "${secret}") { id } }` }),
  ),
  entry(
    "Flask debugger",
    snake,
    ["werkzeug.exceptions", "Traceback"],
    (name, secret) => `Traceback:\n  File "app.py", line 7\n    ${name} = "${secret}"\nwerkzeug.exceptions.BadRequest`,
  ),
  entry(
    "Python dict",
    snake,
    ["KeyError: 'user'"],
    (name, secret) => `KeyError: 'user' in {'id': 4, '${name}': '${secret}', 'raw': b'x'}`,
  ),
  entry("Python bytes", snake, ["TypeError"], (name, secret) => `TypeError: login(user='ann', ${name}=b'${secret}')`),
  entry(
    "WSGI headers",
    header,
    ["('Host', 'shop')"],
    (name, secret) => `[('Host', 'shop'), ('${name}', '${secret}'), ('Accept', '*/*')]`,
  ),
  entry(
    "Python locals of pytest",
    snake,
    ["> assert"],
    (name, secret) => `> assert ok\n${name}   = '${secret}'\nuser = 'ann'`,
  ),
  entry(
    "ASP.NET",
    ["Password", "Pwd"],
    ["Server Error in '/' Application", "Initial Catalog=shop"],
    (name, secret) =>
      `<h1>Server Error in '/' Application.</h1><code>Server=db;Initial Catalog=shop;${name}=${secret}</code>`,
  ),
  entry(
    "web.config",
    ["DbPassword", "ApiKey", "SmtpPass"],
    ["<appSettings>", "Theme"],
    (name, secret) =>
      `<appSettings><add key="Theme" value="dark"/><add key="${name}" value="${secret}"/></appSettings>`,
  ),
  entry(
    "ASP.NET hidden fields",
    ["__VIEWSTATE", "__RequestVerificationToken"],
    ["aspnetForm"],
    (name, secret) =>
      `<form id="aspnetForm"><input type="hidden" name="${name}" id="${name}" value="${secret}" /></form>`,
  ),
  entry(
    "Azure connection string",
    ["AccountKey", "SharedAccessKey"],
    ["AccountName=shop"],
    (name, secret) => `StorageException: AccountName=shop;${name}=${secret};EndpointSuffix=core.example`,
  ),
  entry(
    "SOAP fault",
    ["Password", "SessionId", "AuthToken"],
    ["soap:Client", "Bad order"],
    (name, secret) =>
      `<soap:Fault><faultcode>soap:Client</faultcode><faultstring>Bad order</faultstring><detail><ns:${name} ` +
      `Type="text">${secret}</ns:${name}></detail></soap:Fault>`,
  ),
  entry(
    "XML element",
    [...snake, ...camel],
    ["<host>db</host>"],
    (name, secret) => `<config><host>db</host><${name}>${secret}</${name}></config>`,
  ),
  entry(
    "XML in sections",
    snake,
    ["<port>1</port>"],
    (name, secret) => `<c><port>1</port><${name}>\n<![CDATA[${secret}]]>\n</${name}></c>`,
  ),
  entry(
    "nested XML",
    ["credentials", "auth", "secret"],
    ["<order>7</order>"],
    (name, secret) => `<r><order>7</order><${name}><part>${secret}</part></${name}></r>`,
  ),
  entry(
    "escaped XML",
    snake,
    ["could not parse"],
    (name, secret) => `could not parse &lt;user&gt;ann&lt;/user&gt;&lt;${name}&gt;${secret}&lt;/${name}&gt;`,
  ),
  entry(
    "Spring XML",
    camel,
    ['name="url"'],
    (name, secret) =>
      `<property name="url" value="jdbc:x"/><property name="${name}"><value>${secret}</value></property>`,
  ),
  entry(
    "property list",
    camel,
    ["CFBundleName", "Shop"],
    (name, secret) =>
      `<dict><key>CFBundleName</key><string>Shop</string><key>${name}</key><string>${secret}</string></dict>`,
  ),
  entry(
    "AWS error",
    ["SecurityToken", "AWSSecretKey", "Signature"],
    ["SignatureDoesNotMatch", "RequestId"],
    (name, secret) =>
      `<Error><Code>SignatureDoesNotMatch</Code><Message>They differ.</Message><${name}>${secret}</${name}>` +
      `<RequestId>4442587FB7D0A2F9</RequestId></Error>`,
  ),
  entry(
    "Kubernetes manifest",
    env,
    ["kind: Pod", "image: shop:1"],
    (name, secret) =>
      `kind: Pod\nspec:\n  image: shop:1\n  env:\n  - name: ${name}\n    value: ${secret}\n  - name: TZ`,
  ),
  entry(
    "Kubernetes secret",
    ["tls.key", "password", "api-token"],
    ["kind: Secret", "namespace: shop"],
    (name, secret) => `kind: Secret\nmetadata:\n  namespace: shop\ndata:\n  ${name}: ${secret}`,
  ),
  entry("YAML list", ["tokens", "passwords"], ["host: db"], (name, secret) => `host: db\n${name}:\n  - ${secret}\n`),
  entry("YAML block", ["private_key", "secret"], ["host: db"], (name, secret) => `host: db\n${name}: |\n  ${secret}\n`),
  entry(
    "TOML",
    snake,
    ["[database]", 'host = "db"'],
    (name, secret) => `[database]\nhost = "db"\n${name} = "${secret}"\n`,
  ),
  entry(
    "request dump",
    header,
    ["GET /orders HTTP/1.1", "Host: shop"],
    (name, secret) => `GET /orders HTTP/1.1\nHost: shop\n${name}: ${secret}\nAccept: */*`,
  ),
  entry(
    "curl -v",
    header,
    ["< HTTP/1.1 502", "> Host: shop"],
    (name, secret) => `> Host: shop\n> ${name}: Bearer ${secret}\n< HTTP/1.1 502 Bad Gateway`,
  ),
  entry(
    "multipart body",
    snake,
    ["filename", "image/png"],
    (name, secret) =>
      `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${secret}\r\n--b\r\nContent-Disposition: file; ` +
      `name="f"; filename="a.png"\r\nContent-Type: image/png\r\n`,
  ),
  entry(
    "form body",
    [...snake, ...glued],
    ["user=ann", "page=2"],
    (name, secret) => `could not parse: user=ann&${name}=${encodeURIComponent(secret)}&page=2`,
  ),
  entry(
    "nginx log",
    ["token", "access_token", "sig", "state"],
    ["upstream timed out", "GET /cb"],
    (name, secret) =>
      `upstream timed out, request: "GET /cb?a=1&${name}=${encodeURIComponent(secret)} HTTP/1.1", host: "shop"`,
  ),
  entry(
    "URL in a URL",
    ["token", "code", "ticket"],
    ["https://id.example.org/login"],
    (name, secret) =>
      `https://id.example.org/login?next=${encodeURIComponent(`http://a/?${name}=${encodeURIComponent(secret)}&x=1`)}`,
  ),
  entry(
    "fragment",
    ["access_token", "id_token"],
    ["https://a.example/cb#"],
    (name, secret) => `redirected to https://a.example/cb#${name}=${encodeURIComponent(secret)}&expires_in=3600`,
  ),
  entry(
    "table with a heading row",
    ["Password", "Token", "API key"],
    ["<td>ann</td>", "<th>Name</th>"],
    (name, secret) => `<table><tr><th>Name</th><th>${name}</th></tr><tr><td>ann</td><td>${secret}</td></tr></table>`,
  ),
  entry(
    "bold captions",
    ["Password", "API key", "Session ID"],
    ["Host"],
    (name, secret) => `<p><b>Host:</b> db</p><p><b>${name}:</b> ${secret}</p>`,
  ),
  entry("Markdown table", env, ["| HOST | db |"], (name, secret) => `| HOST | db |\n| ${name} | ${secret} |`),
  entry("aligned columns", env, ["HOST        db"], (name, secret) => `HOST        db\n${name}      ${secret}\n`),
  entry(
    "DSN",
    ["x"],
    ["postgres://", "@db:5432/shop"],
    (_name, secret) => `could not connect to postgres://shop:${secret.replaceAll("/", "%2F")}@db:5432/shop`,
  ),
  entry(
    "key-value DSN",
    ["password", "sslpassword"],
    ["host=db", "dbname=shop"],
    (name, secret) => `connection failed: host=db ${name}=${secret} dbname=shop`,
  ),
  entry("SQL", ["x"], ["CREATE USER", "shop"], (_name, secret) => `near "CREATE USER shop IDENTIFIED BY '${secret}'"`),
  entry(
    "SQL update",
    ["password", "api_token"],
    ["UPDATE users", "WHERE id = 4"],
    (name, secret) => `UPDATE users SET ${name} = '${secret}' WHERE id = 4`,
  ),
  entry(
    "prose with quotes",
    ["token", "password", "API key"],
    ["is not valid"],
    (name, secret) => `The ${name} "${secret}" is not valid`,
  ),
  entry(
    "Go struct",
    camel,
    ["Host:db", "Port:5432"],
    (name, secret) => `panic: {Host:db ${name[0]!.toUpperCase()}${name.slice(1)}:${secret} Port:5432}`,
  ),
  entry(
    "logfmt",
    snake,
    ["level=error", "msg=refused"],
    (name, secret) => `level=error msg=refused ${name}=${secret} ms=4`,
  ),
  entry(
    "source with a default",
    env,
    ["config/app.php"],
    (name, secret) => `config/app.php: env('${name}', '${secret}')`,
  ),
  entry(
    "data attribute",
    ["token", "api-key", "csrf"],
    ["<body class"],
    (name, secret) => `<body class="error" data-${name}="${secret}">Sorry</body>`,
  ),
  entry(
    "script",
    camel,
    ["window.config"],
    (name, secret) => `<script>window.config = {theme: "dark", ${name}: "${secret}"};</script>`,
  ),
];

/** Different alphabets and lengths; none is recognisable without its name. */
export const secrets = ["hunter2horse", "s3cr3t+with/slash=", "Pa55-word_9!x", "0f9e8d7c6b5a", "xK9mQ2vT7w"] as const;

/** Pages without secrets: what stands in them is for the reader. */
export const harmless: readonly string[] = [
  "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1><hr>nginx</body></html>",
  '{"status":500,"error":"Internal Server Error","path":"/orders","timestamp":"2026-01-02T03:04:05.678+00:00"}',
  '{"error":"invalid_token","error_description":"The access token expired","expires_in":0,"token_type":"Bearer"}',
  "Invalid token. Your session has expired, please log in again.",
  "TypeError: Cannot read properties of undefined (reading 'token')\n    at Token.parse (/srv/app/token.js:12:5)",
  "SyntaxError: Unexpected token '<', \"<!DOCTYPE \"... is not valid JSON",
  'django.db.utils.IntegrityError: duplicate key value violates unique constraint "users_pkey"\nKey (id)=(4) exists.',
  "Access denied for user 'root'@'localhost' (using password: YES)",
  "<Error><Code>InvalidAccessKeyId</Code><Message>The AWS Access Key Id you provided does not exist.</Message></Error>",
  "org.springframework.security.web.csrf.MissingCsrfTokenException: Could not verify the provided CSRF token",
  "Illuminate\\Session\\TokenMismatchException in VerifyCsrfToken.php line 68",
  '<form action="/login"><label for="password">Password</label><input type="password" name="password"></form>',
  "session_driver=db\nsession_lifetime=120\nauth_url=https://id.example.org/\ntoken_endpoint=/token\nkey_type=rsa",
  '{"usage":{"prompt_tokens":12,"completion_tokens":8,"total_tokens":20},"max_tokens":100}',
  '{"password":null,"token":"","authenticated":false,"secretName":"shop-tls","keyName":"primary"}',
  "<table><tr><th>Key</th><th>Value</th></tr></table><h1>Session</h1><p>Nothing to see here</p>",
  "    at AuthService.login (/srv/dist/auth.service.js:40:11)\n    at SessionManager.open (SessionManager.java:120)",
  "error: passkey.ts(4,2): Type 'string' is not assignable to type 'number'.",
  '{"message":"not found","monkey":"banana","keyboard":"qwerty","author":"Ann","passenger":"Bo","compass":"north"}',
  "Forbidden: CSRF verification failed. Request aborted. Reason given for failure: CSRF cookie not set.",
  "https://example.org/orders?page=2&sort=name&order=asc&q=garden+chair",
  "primary_key: id\nforeign_key: order_id\npublic_key_algorithm: rsa\ncache_key: orders-2",
  "panic: runtime error: index out of range [3]\ngoroutine 1 [running]:\nmain.main()\n\t/srv/main.go:12 +0x1d",
  '{"requestId":"0af7651916cd43dd8448eb211c80319c","traceId":"00-0af7651916cd43dd-b7ad6b7169203331-01"}',
  "export const token: string = undefined; token === null; secret: boolean",
];
