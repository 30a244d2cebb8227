package streamling.kafka;

import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Pattern;

/**
 * The setting {@code network.deny_private} for the connections of Kafka's clients, which learn the addresses of brokers
 * from other brokers. The process sets the system properties ({@code network/policy.py}); without them, every address is
 * accepted.
 */
public final class NetworkPolicy {
  private static final List<String> DENIED = list("streamling.network.denied");
  private static final List<String> ALLOWED = list("streamling.network.allowed");

  private NetworkPolicy() {}

  /** Returns {@code addresses} if a client may connect to all of them. */
  public static InetAddress[] check(String host, InetAddress[] addresses) throws UnknownHostException {
    if (DENIED.isEmpty() || ALLOWED.stream().anyMatch(pattern -> isNamed(host, pattern))) {
      return addresses;
    }
    for (InetAddress address : addresses) {
      if (isIn(address, DENIED) && !isIn(address, ALLOWED)) {
        throw new UnknownHostException(
            host + " is the private address " + address.getHostAddress() + ", and network.deny_private is on");
      }
    }
    return addresses;
  }

  private static boolean isNamed(String host, String pattern) {
    // wildcards are for names, as in Python: "*.1" is no network
    if (pattern.contains("*") && !pattern.equals("*") && host.matches("[0-9.]+|.*:.*")) {
      return false;
    }
    String expression = "\\Q" + pattern.toLowerCase().replace("*", "\\E.*\\Q") + "\\E";
    return Pattern.matches(expression, host.toLowerCase());
  }

  private static boolean isIn(InetAddress address, List<String> networks) throws UnknownHostException {
    byte[] inner = embedded(address);
    for (String network : networks) {
      if (isIn(address.getAddress(), network) || (inner != null && isIn(inner, network))) {
        return true;
      }
    }
    return false;
  }

  private static boolean isIn(byte[] address, String network) throws UnknownHostException {
    int slash = network.indexOf('/');
    String first = slash < 0 ? network : network.substring(0, slash);
    if (!first.matches("[0-9.]+|[0-9a-fA-F.]*:[0-9a-fA-F:.]*")) {
      return false; // a name: it must not be resolved
    }
    byte[] start = InetAddress.getByName(first).getAddress();
    int bits = slash < 0 ? 8 * start.length : Integer.parseInt(network.substring(slash + 1));
    if (start.length != address.length) {
      return false;
    }
    for (int bit = 0; bit < bits; bit++) {
      int mask = 0x80 >> (bit % 8);
      if ((start[bit / 8] & mask) != (address[bit / 8] & mask)) {
        return false;
      }
    }
    return true;
  }

  /** The IPv4 address that a gateway would connect to (NAT64 and 6to4), or null. */
  private static byte[] embedded(InetAddress address) throws UnknownHostException {
    if (!(address instanceof Inet6Address)) {
      return null;
    }
    byte[] bytes = address.getAddress();
    if (isIn(bytes, "64:ff9b::/96")) {
      return Arrays.copyOfRange(bytes, 12, 16);
    }
    return isIn(bytes, "2002::/16") ? Arrays.copyOfRange(bytes, 2, 6) : null;
  }

  private static List<String> list(String property) {
    String text = System.getProperty(property, "").trim();
    return text.isEmpty() ? List.of() : List.of(text.split("\\s*,\\s*"));
  }
}
